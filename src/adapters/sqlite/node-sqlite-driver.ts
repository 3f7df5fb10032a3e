import { isOwnWork } from '../../ground/lifecycle.ts';
import { assertShape } from '../../transaction/assert-shape.ts';
import type { Connections, DriverPatch, WatchedConnection } from '../../transaction/driver.ts';
import { patchOnce } from '../../transaction/patch-once.ts';
import { ownStatements } from './own-statements.ts';
import { type DatabaseClass, driverOf, type SqliteDriver } from './sqlite-handle.ts';
import { openSession, tellStatement } from './told-statement.ts';
import { driverIsLoaded, driverIsUsed } from './used-driver.ts';

type Method = (this: object, ...args: unknown[]) => unknown;
type Methods = Record<string, Method>;

interface DatabaseSync {
  /** From Node 22.16 on. */
  readonly isTransaction?: boolean;
  location?(): string | null;
}

interface NodeSqlite {
  readonly DatabaseSync: { new (path: string): DatabaseSync & Disposable; readonly prototype: object };
  readonly StatementSync: { readonly prototype: object };
}

const running = ['run', 'all', 'get', 'iterate'];

export const nodeSqliteDriver: DriverPatch = {
  specifier: 'node:sqlite',
  patch(exports, connections) {
    const { DatabaseSync, StatementSync } = exports as NodeSqlite;
    const prototype = DatabaseSync.prototype as Methods;
    const driver = driverOf(DatabaseSync as unknown as DatabaseClass);
    driverIsLoaded(driver);
    patchOnce(prototype, () => {
      using probe = new DatabaseSync(':memory:');
      if (typeof probe.isTransaction !== 'boolean')
        throw new Error(
          `node:sqlite does not tell about transactions before Node 22.16, and this is ${process.versions.node}: use a later Node, or better-sqlite3`,
        );
      assertShape(prototype, ['exec', 'prepare', 'close']);
      assertShape(StatementSync?.prototype, running);
      patch(prototype, StatementSync.prototype as Methods, driver, connections);
    });
  },
};

/** A statement keeps to itself which database it is of, and its text may be that of many. */
interface Prepared {
  readonly database: object;
  readonly text: string;
}

function patch(database: Methods, statement: Methods, driver: SqliteDriver, connections: Connections): void {
  const { exec, prepare } = database as { exec: Method; prepare: Method };
  const prepared = new WeakMap<object, Prepared>();
  const runOwn = ownStatements(prepare);
  const connectionOf = (handle: object): WatchedConnection | undefined =>
    connections.of(handle, (made) => {
      driverIsUsed(driver, fileOf(handle));
      return openSession(
        {
          isInTransaction: () => (handle as DatabaseSync).isTransaction === true,
          run: (statement) => runOwn(handle, statement),
        },
        made,
      );
    });
  const tell = (handle: object, text: unknown, send: () => unknown): unknown =>
    isOwnWork() || typeof text !== 'string' ? send() : tellStatement(connectionOf(handle), text, send);

  database.exec = function (this: object, ...args) {
    return tell(this, args[0], () => Reflect.apply(exec, this, args));
  };
  database.prepare = function (this: object, ...args) {
    const made = Reflect.apply(prepare, this, args) as object;
    prepared.set(made, { database: this, text: String(args[0]) });
    return made;
  };
  for (const name of running) {
    const original = statement[name] as Method;
    statement[name] = function (this: object, ...args) {
      const known = prepared.get(this);
      const send = (): unknown => Reflect.apply(original, this, args);
      return known === undefined ? send() : tell(known.database, known.text, send);
    };
  }
  for (const name of ['close', Symbol.dispose]) endWith(database, name, connections);
  if (database.createTagStore !== undefined) patchTagStores(database, tell);
}

/** `null`: in memory, or closed. */
function fileOf(handle: DatabaseSync): string | null {
  try {
    return handle.location?.() ?? null;
  } catch {
    return null;
  }
}

/** What was not committed goes with the handle. */
function endWith(database: object, name: string | symbol, connections: Connections): void {
  const methods = database as Record<string | symbol, Method | undefined>;
  const original = methods[name];
  if (original === undefined) return;
  methods[name] = function (this: object, ...args) {
    const result = Reflect.apply(original, this, args);
    connections.seen(this)?.answered('none', 'rolled_back');
    return result;
  };
}

type Tell = (handle: object, text: unknown, send: () => unknown) => unknown;

/** From Node 24.9 on; their class is not exported. */
function patchTagStores(database: Methods, tell: Tell): void {
  const createTagStore = database.createTagStore as Method;
  const owners = new WeakMap<object, object>();
  database.createTagStore = function (this: object, ...args) {
    const store = Reflect.apply(createTagStore, this, args) as object;
    owners.set(store, this);
    const prototype = Object.getPrototypeOf(store) as Methods;
    patchOnce(prototype, () => {
      for (const name of running) {
        const original = prototype[name];
        if (typeof original !== 'function') continue;
        prototype[name] = function (this: object, ...given) {
          const owner = owners.get(this);
          const send = (): unknown => Reflect.apply(original, this, given);
          const [parts] = given;
          return owner === undefined || !Array.isArray(parts) ? send() : tell(owner, parts.join('?'), send);
        };
      }
    });
    return store;
  };
}

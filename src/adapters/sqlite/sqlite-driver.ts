import { isOwnWork } from '../../ground/lifecycle.ts';
import type { Connections, DriverPatch, WatchedConnection } from '../../transaction/driver.ts';
import { assertShape, patchMethod, patchOnce } from '../../transaction/patch-method.ts';
import { currentScope, runInScope, Scope } from '../../transaction/scope.ts';
import { openSession, ownStatements, tellStatement } from './own-statements.ts';
import { type DatabaseClass, driverOf, type SqliteDriver } from './sqlite-handle.ts';
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

type BetterSqlite3DriverMethod = (this: unknown, ...args: unknown[]) => unknown;

interface Database {
  /** The path, as the application gave it. */
  readonly name: string;
  readonly inTransaction: boolean;
}

interface Statement {
  readonly source: string;
  readonly database: Database;
}

interface StatementMethods {
  run: BetterSqlite3DriverMethod;
  get: BetterSqlite3DriverMethod;
  all: BetterSqlite3DriverMethod;
  iterate: BetterSqlite3DriverMethod;
}

interface DatabaseMethods {
  exec: BetterSqlite3DriverMethod;
  prepare: BetterSqlite3DriverMethod;
  close: BetterSqlite3DriverMethod;
  transaction: BetterSqlite3DriverMethod;
}

/** What `transaction()` returns: a function that has four of its kind as properties. */
type TransactionFunction = BetterSqlite3DriverMethod &
  Readonly<Record<(typeof variants)[number], BetterSqlite3DriverMethod>>;

const runningOfBetterSqlite3Driver = ['run', 'get', 'all', 'iterate'] as const;
const variants = ['default', 'deferred', 'immediate', 'exclusive'] as const;

export const betterSqlite3Driver: DriverPatch = {
  specifier: 'better-sqlite3',
  patch(exports, connections) {
    const driver = driverOf(exports as DatabaseClass);
    driverIsLoaded(driver);
    assertShape(
      exports,
      ['exec', 'prepare', 'close', 'transaction'].map((name) => `prototype.${name}`),
    );
    const { prototype } = exports as { readonly prototype: DatabaseMethods };
    patchOnce(prototype, () => patchDatabase(prototype, driver, connections));
  },
};

function patchDatabase(prototype: DatabaseMethods, driver: SqliteDriver, connections: Connections): void {
  const { prepare, close, transaction } = prototype;
  const runOwn = ownStatements<Database>(prepare);
  const connectionOf = (handle: Database): WatchedConnection | undefined =>
    connections.of(handle, (made) => {
      if (typeof handle.inTransaction !== 'boolean') throw new Error('it does not tell about transactions');
      driverIsUsed(driver, handle.name);
      return openSession(
        {
          isInTransaction: () => handle.inTransaction,
          run: (statement) => runOwn(handle, statement),
        },
        made,
      );
    });
  const tell = (handle: Database, text: unknown, send: () => unknown): unknown =>
    isOwnWork() || typeof text !== 'string' ? send() : tellStatement(connectionOf(handle), text, send);

  /** Their class is the native module's own: it is reached through the first of them. */
  function patchStatements(handle: Database, first: () => unknown): void {
    try {
      const statement = first() as Statement;
      if (statement.database !== handle || typeof statement.source !== 'string')
        throw new Error('its statements do not tell what they are of');
      const methods = Object.getPrototypeOf(statement) as StatementMethods;
      patchOnce(methods, () => {
        assertShape(methods, runningOfBetterSqlite3Driver);
        patchMethods(methods);
      });
    } catch (error) {
      connectionOf(handle)?.isNotUnderstood(error);
    }
  }

  function patchMethods(methods: StatementMethods): void {
    for (const name of runningOfBetterSqlite3Driver) {
      const original = methods[name];
      methods[name] = function (this: unknown, ...args) {
        const { database, source } = this as Statement;
        return tell(database, source, () => Reflect.apply(original, this, args));
      };
    }
  }

  patchMethod(prototype, 'exec', (behind) => {
    return function exec(this: unknown, ...args) {
      return tell(this as Database, args[0], () => Reflect.apply(behind(), this, args));
    };
  });
  patchMethod(prototype, 'prepare', (behind) => {
    return function prepare(this: unknown, ...args) {
      const made = Reflect.apply(behind(), this, args) as object;
      patchStatements(this as Database, () => made);
      return made;
    };
  });
  prototype.close = function (this: unknown, ...args) {
    const result = Reflect.apply(close, this, args);
    connections.seen(this as Database)?.answered('none', 'rolled_back');
    return result;
  };
  prototype.transaction = function (this: unknown, ...args) {
    // Its BEGIN and COMMIT are statements as others are, made without `prepare`.
    patchStatements(this as Database, () => Reflect.apply(prepare, this, ['SELECT 1']));
    const [work] = args;
    const given = typeof work === 'function' ? [tellsResult(work as BetterSqlite3DriverMethod)] : args;
    return inScopes(Reflect.apply(transaction, this, given) as TransactionFunction);
  };
}

/** What the callback returns is known before the COMMIT. */
function tellsResult(work: BetterSqlite3DriverMethod): BetterSqlite3DriverMethod {
  return function (this: unknown, ...args) {
    const value = Reflect.apply(work, this, args);
    const scope = currentScope();
    if (scope !== undefined) scope.callbackResult = { value };
    return value;
  };
}

/** Its four functions, each of which is a part of the application of its own. */
function inScopes(made: TransactionFunction): TransactionFunction {
  if (variants.some((name) => typeof made[name] !== 'function')) return made;
  const wrap = (original: BetterSqlite3DriverMethod): BetterSqlite3DriverMethod =>
    function sqliteTransaction(this: unknown, ...args) {
      return runInScope(new Scope(currentScope()), () => Reflect.apply(original, this, args));
    };
  const wrapped = variants.map((name) => [name, wrap(made[name])] as const);
  const properties: PropertyDescriptorMap = Object.fromEntries(
    wrapped.map(([name, value]) => [name, { value }]),
  );
  const database = Object.getOwnPropertyDescriptor(made, 'database');
  for (const [, one] of wrapped)
    Object.defineProperties(one, { ...properties, ...(database && { database }) });
  return properties.default?.value as TransactionFunction;
}

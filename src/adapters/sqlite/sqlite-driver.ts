import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { isOwnWork, runOwnWork, shared } from '../../ground/lifecycle.ts';
import {
  type Connections,
  type Dialect,
  type DriverPatch,
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import { assertShape, patchMethod, patchOnce } from '../../transaction/patch-method.ts';
import { kindOf } from '../../transaction/statements.ts';
import { currentScope, runInScope, Scope } from '../../transaction/transaction.ts';
import { migrate, schemaVersion } from '../sql/schema.ts';
import { dialects, runWorkAtOnce, tablesOf } from '../sql/statement.ts';
import { type DatabaseClass, driverOf, loadNodeSqlite, pathOf, type SqliteDriver } from './sqlite-handle.ts';

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
          `node:sqlite does not report transactions before Node 22.16, and this is ${process.versions.node}: use a later Node or better-sqlite3`,
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

interface SqliteDriverStatement {
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
      if (typeof handle.inTransaction !== 'boolean') throw new Error('it does not report transactions');
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
      const statement = first() as SqliteDriverStatement;
      if (statement.database !== handle || typeof statement.source !== 'string')
        throw new Error('its statements do not report their connection');
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
        const { database, source } = this as SqliteDriverStatement;
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

/** Runs svc's own statements, each of them prepared once per handle with the driver's unpatched method. */
function ownStatements<Handle extends object>(
  prepare: (this: Handle, text: string) => unknown,
): (handle: Handle, statement: Statement) => void {
  const ofSvc = new WeakMap<Handle, Map<string, Runnable>>();
  return (handle, { text, values }) => {
    const known = ofSvc.get(handle) ?? new Map<string, Runnable>();
    ofSvc.set(handle, known);
    const own = known.get(text) ?? (Reflect.apply(prepare, handle, [text]) as Runnable);
    known.set(text, own);
    // Own work, which the patched method lets pass.
    own.run(...values);
  };
}

/** What is needed of a handle, whichever driver it is of: all of it answers at once. */
interface SqliteHandle {
  isInTransaction(): boolean;
  /** With the driver's own methods. */
  run(statement: Statement): void;
}

/** A prepared statement of either. */
interface Runnable {
  run(...values: readonly unknown[]): unknown;
}

const dialect: Dialect = 'sqlite';

/** Connections whose COMMIT was refused, and what begins an empty transaction there: see `tellStatement`. */
const refused = new WeakMap<WatchedConnection, () => void>();

function openSession(handle: SqliteHandle, connection: WatchedConnection): DriverSession {
  const status = (): TransactionStatus => (handle.isInTransaction() ? 'open' : 'none');
  return {
    dialect,
    status,
    run(statement) {
      if (status() === 'none') {
        if (statement.text === 'ROLLBACK') return undefined;
        throw new TransactionOver();
      }
      try {
        handle.run(statement);
      } finally {
        // An error may have ended the transaction: a full disk does.
        connection.answered(status(), status() === 'none' ? 'rolled_back' : undefined);
      }
      if (statement.text === 'ROLLBACK')
        refused.set(connection, () => runOwnWork(() => handle.run({ text: 'BEGIN', values: [] })));
      return undefined;
    },
  };
}

/**
 * Sends a statement of the application, and tells its connection before and after. Throws where a COMMIT must not be sent: svc has
 * rolled back then. SQLite itself would have left the transaction open, and takes no ROLLBACK without one, whose error would
 * hide ours: an application that sends it next has an empty one to roll back.
 */
function tellStatement<R>(connection: WatchedConnection | undefined, text: string, send: () => R): R {
  if (connection === undefined) return send();
  const { session } = connection;
  const beginEmpty = refused.get(connection);
  refused.delete(connection);
  connection.sends(text);
  if (session.status() === 'none' && kindOf(text, dialect).is === 'rollback') beginEmpty?.();
  let isTaken = false;
  try {
    const result = send();
    isTaken = true;
    return result;
  } finally {
    connection.answered(session.status(), endAfter(text, session.status(), isTaken));
  }
}

/** Of the transaction that a statement has ended, if it was in one. */
function endAfter(text: string, status: TransactionStatus, isTaken: boolean): TransactionEnd | undefined {
  const kind = kindOf(text, dialect).is;
  if (!isTaken || kind === 'rollback') return status === 'none' || isTaken ? 'rolled_back' : undefined;
  return status === 'none' || kind === 'commit' ? 'committed' : undefined;
}

/**
 * Two copies of SQLite in one process undo each other's locks on a file, and damage it (sqlite.org/howtocorrupt.html, 2.2.1): svc
 * opens the application's file with the very driver that the application uses, and lets go of it as soon as that turns out
 * to be another one than it has taken.
 */
const used = shared('sqlite-driver', () => ({
  /** The first one that the application has loaded. */
  first: undefined as SqliteDriver | undefined,
  /** Files on which it uses another one. */
  onFile: new Map<string, SqliteDriver>(),
  /** One that svc has no patch for. */
  foreign: undefined as string | undefined,
  /** Of those who have a file open. */
  listeners: new Set<() => void>(),
}));

export function usedDriver(path: string): SqliteDriver | undefined {
  return used.onFile.get(realPath(path)) ?? used.first;
}

/** The name of a driver with a SQLite of its own, where svc would open the file beside it. */
export function foreignSqlite(path: string): string | undefined {
  return usedDriver(path) === undefined ? used.foreign : undefined;
}

/** Until the returned function is called. */
export function onOtherDriver(listener: () => void): () => void {
  used.listeners.add(listener);
  return () => void used.listeners.delete(listener);
}

/** Before the application can open a file with it. svc itself loads drivers, too: that counts for nothing. */
function driverIsLoaded(driver: SqliteDriver): void {
  if (isOwnWork() || used.first !== undefined) return;
  used.first = driver;
  tell();
}

export function foreignSqliteIsLoaded(name: string): void {
  used.foreign = name;
  tell();
}

/** Before the first statement on a handle of the application. */
function driverIsUsed(driver: SqliteDriver, path: string | null): void {
  if (isOwnWork() || path === null || path === '' || path === ':memory:' || usedDriver(path) === driver)
    return;
  used.onFile.set(realPath(path), driver);
  tell();
}

function tell(): void {
  for (const listener of used.listeners) runOwnWork(listener);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** The longest that the start of a process waits for another one that has the file. */
const busyMs = 2_000;

/**
 * Makes the tables before the application's first turn, in which its first event may be stored. What is wrong with them, the
 * store tells when it is prepared.
 */
export function prepareSqliteAtOnce(url: string, table: string): void {
  const database = loadNodeSqlite().open(pathOf(url));
  try {
    database.exec(`PRAGMA busy_timeout = ${busyMs}`);
    database.exec('PRAGMA journal_mode = WAL');
    for (let version = 0; version < schemaVersion; ) {
      database.exec('BEGIN IMMEDIATE');
      const work = migrate(dialects.sqlite, table, tablesOf('sqlite', table), { limitMs: busyMs });
      version = runWorkAtOnce(work, (statement) => database.run(statement))?.after ?? schemaVersion;
      database.exec('COMMIT');
    }
  } finally {
    // Before the application opens it: two copies of SQLite in one process undo each other's locks.
    database.close();
  }
}

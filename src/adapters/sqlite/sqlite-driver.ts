import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { isOwnWork, runOwnWork, shared } from '../../ground/lifecycle.ts';
import type { SqlValue } from '../../outbox/insert-row.ts';
import { badUrl } from '../../outbox/store-error.ts';
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
import {
  dialects,
  runWorkAtOnce,
  type SqlRow,
  type Statement as SqlStatement,
  type StatementResult,
  tablesOf,
} from '../sql/statement.ts';

/** One connection to a file, with either driver. Synchronous. */
export interface SqliteHandle {
  run(statement: SqlStatement): StatementResult;
  exec(sql: string): void;
  close(): void;
}

export interface SqliteDriver {
  open(path: string): SqliteHandle;
}

/** The common part of `better-sqlite3` and `node:sqlite`. */
interface Database {
  prepare(sql: string): {
    all(...values: readonly SqlValue[]): unknown[];
    run(...values: readonly SqlValue[]): { readonly changes: number | bigint };
  };
  exec(sql: string): unknown;
  close(): unknown;
}

type DatabaseClass = new (path: string, options: { readonly timeout: number }) => Database;

/** Prepared statements that are kept. Operators' commands all differ. */
const maxPrepared = 50;

function handleOf(database: Database): SqliteHandle {
  const prepared = new Map<string, ReturnType<Database['prepare']>>();
  return {
    run({ sql, values, hasRows }) {
      let statement = prepared.get(sql);
      if (statement === undefined) {
        statement = database.prepare(sql);
        if (prepared.size === maxPrepared) prepared.clear();
        prepared.set(sql, statement);
      }
      if (hasRows) return { rows: statement.all(...values) as SqlRow[], count: 0 };
      return { rows: [], count: Number(statement.run(...values).changes) };
    },
    exec: (sql) => void database.exec(sql),
    close: () => {
      prepared.clear();
      database.close();
    },
  };
}

const ofClass = new WeakMap<DatabaseClass, SqliteDriver>();

/** Returns the same driver for the same class. */
function driverOf(Class: DatabaseClass): SqliteDriver {
  const driver = ofClass.get(Class) ?? { open: (path) => handleOf(new Class(path, { timeout: 0 })) };
  ofClass.set(Class, driver);
  return driver;
}

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = 'better-sqlite3';

/** Rejects if the package is not installed, or not built for this Node. */
export async function loadBetterSqlite(): Promise<SqliteDriver> {
  const { default: Class } = (await import(packageName)) as { default: DatabaseClass };
  return driverOf(Class);
}

export function loadNodeSqlite(): SqliteDriver {
  const { DatabaseSync } = withoutWarning(() => process.getBuiltinModule('node:sqlite'));
  return driverOf(DatabaseSync as unknown as DatabaseClass);
}

/** `better-sqlite3` if it is installed, else `node:sqlite`. */
function loadSqlite(): Promise<SqliteDriver> {
  return loadBetterSqlite().catch(loadNodeSqlite);
}

/** Suppresses Node 22's warning that SQLite is experimental, during this synchronous load only. */
function withoutWarning<T>(load: () => T): T {
  const { emitWarning } = process;
  const quiet = (...parameters: Parameters<typeof emitWarning>): void => {
    const [warning, kind] = parameters as readonly unknown[];
    const isThis = kind === 'ExperimentalWarning' && String(warning).startsWith('SQLite ');
    if (!isThis) Reflect.apply(emitWarning, process, parameters);
  };
  process.emitWarning = quiet as typeof emitWarning;
  try {
    return load();
  } finally {
    if (process.emitWarning === quiet) process.emitWarning = emitWarning;
  }
}

function pathOf(url: string): string {
  const path = /^sqlite:(?:\/\/(?=\/))?(.+)$/s.exec(url)?.[1];
  if (path === undefined) throw badUrl('for SQLite, use sqlite: and the path of a file');
  return path;
}

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

const nodeSqlite: DriverPatch = {
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

/** The database and text of a statement, which the driver does not expose. */
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

/** Closing a handle rolls its open transaction back. */
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

/** From Node 24.9 on. Their class is not exported. */
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

type BetterSqliteMethod = (this: unknown, ...args: unknown[]) => unknown;

interface BetterSqliteDatabase {
  /** The path, as the application gave it. */
  readonly name: string;
  readonly inTransaction: boolean;
}

interface BetterSqliteStatement {
  readonly source: string;
  readonly database: BetterSqliteDatabase;
}

interface StatementMethods {
  run: BetterSqliteMethod;
  get: BetterSqliteMethod;
  all: BetterSqliteMethod;
  iterate: BetterSqliteMethod;
}

interface DatabaseMethods {
  exec: BetterSqliteMethod;
  prepare: BetterSqliteMethod;
  close: BetterSqliteMethod;
  transaction: BetterSqliteMethod;
}

/** The result of `transaction()`: a function with four variants as properties. */
type TransactionFunction = BetterSqliteMethod &
  Readonly<Record<(typeof variants)[number], BetterSqliteMethod>>;

const betterSqliteRunning = ['run', 'get', 'all', 'iterate'] as const;
const variants = ['default', 'deferred', 'immediate', 'exclusive'] as const;

const betterSqlite3: DriverPatch = {
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

/** The drivers of SQLite, for the start of svc. */
export const sqliteDrivers = {
  nodeSqlite,
  betterSqlite3,
  /** The application has loaded a driver without a patch. */
  foreignIsLoaded(name: string): void {
    used.foreign = name;
    tell();
  },
  /** Creates the tables before the application's first turn, which may store an event. The store reports problems later. */
  prepareAtOnce,
};

function patchDatabase(prototype: DatabaseMethods, driver: SqliteDriver, connections: Connections): void {
  const { prepare, close, transaction } = prototype;
  const runOwn = ownStatements<BetterSqliteDatabase>(prepare);
  const connectionOf = (handle: BetterSqliteDatabase): WatchedConnection | undefined =>
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
  const tell = (handle: BetterSqliteDatabase, text: unknown, send: () => unknown): unknown =>
    isOwnWork() || typeof text !== 'string' ? send() : tellStatement(connectionOf(handle), text, send);

  /** Their class is native and not exported, so the first statement leads to it. */
  function patchStatements(handle: BetterSqliteDatabase, first: () => unknown): void {
    try {
      const statement = first() as BetterSqliteStatement;
      if (statement.database !== handle || typeof statement.source !== 'string')
        throw new Error('its statements do not report their connection');
      const methods = Object.getPrototypeOf(statement) as StatementMethods;
      patchOnce(methods, () => {
        assertShape(methods, betterSqliteRunning);
        patchMethods(methods);
      });
    } catch (error) {
      connectionOf(handle)?.isNotUnderstood(error);
    }
  }

  function patchMethods(methods: StatementMethods): void {
    for (const name of betterSqliteRunning) {
      const original = methods[name];
      methods[name] = function (this: unknown, ...args) {
        const { database, source } = this as BetterSqliteStatement;
        return tell(database, source, () => Reflect.apply(original, this, args));
      };
    }
  }

  patchMethod(prototype, 'exec', (behind) => {
    return function exec(this: unknown, ...args) {
      return tell(this as BetterSqliteDatabase, args[0], () => Reflect.apply(behind(), this, args));
    };
  });
  patchMethod(prototype, 'prepare', (behind) => {
    return function prepare(this: unknown, ...args) {
      const made = Reflect.apply(behind(), this, args) as object;
      patchStatements(this as BetterSqliteDatabase, () => made);
      return made;
    };
  });
  prototype.close = function (this: unknown, ...args) {
    const result = Reflect.apply(close, this, args);
    connections.seen(this as BetterSqliteDatabase)?.answered('none', 'rolled_back');
    return result;
  };
  prototype.transaction = function (this: unknown, ...args) {
    // Its BEGIN and COMMIT are ordinary statements, made without `prepare`.
    patchStatements(this as BetterSqliteDatabase, () => Reflect.apply(prepare, this, ['SELECT 1']));
    const [work] = args;
    const given = typeof work === 'function' ? [tellsResult(work as BetterSqliteMethod)] : args;
    return inScopes(Reflect.apply(transaction, this, given) as TransactionFunction);
  };
}

/** Records the result of the callback before the COMMIT. */
function tellsResult(work: BetterSqliteMethod): BetterSqliteMethod {
  return function (this: unknown, ...args) {
    const value = Reflect.apply(work, this, args);
    const scope = currentScope();
    if (scope !== undefined) scope.callbackResult = { value };
    return value;
  };
}

/** Runs each of the four variants in its own scope. */
function inScopes(made: TransactionFunction): TransactionFunction {
  if (variants.some((name) => typeof made[name] !== 'function')) return made;
  const wrap = (original: BetterSqliteMethod): BetterSqliteMethod =>
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
    // The patched method ignores svc's own work.
    own.run(...values);
  };
}

/** The part of a handle that svc uses, synchronous in both drivers. */
interface DriverHandle {
  isInTransaction(): boolean;
  /** With the driver's own methods. */
  run(statement: Statement): void;
}

interface Runnable {
  run(...values: readonly unknown[]): unknown;
}

const dialect: Dialect = 'sqlite';

/** Connections with a refused COMMIT, and a function that begins an empty transaction, see `tellStatement`. */
const refused = new WeakMap<WatchedConnection, () => void>();

function openSession(handle: DriverHandle, connection: WatchedConnection): DriverSession {
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
        // An error, such as a full disk, may have ended the transaction.
        connection.answered(status(), status() === 'none' ? 'rolled_back' : undefined);
      }
      if (statement.text === 'ROLLBACK')
        refused.set(connection, () => runOwnWork(() => handle.run({ text: 'BEGIN', values: [] })));
      return undefined;
    },
  };
}

/**
 * Sends a statement of the application, and notifies its connection before and after. If svc refuses a COMMIT, it rolls back
 * and throws. SQLite itself would keep the transaction open, and the application's ROLLBACK would fail and hide our error. So
 * that ROLLBACK gets an empty transaction.
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

/** How a statement ended its transaction, if it was in one. */
function endAfter(text: string, status: TransactionStatus, isTaken: boolean): TransactionEnd | undefined {
  const kind = kindOf(text, dialect).is;
  if (!isTaken || kind === 'rollback') return status === 'none' || isTaken ? 'rolled_back' : undefined;
  return status === 'none' || kind === 'commit' ? 'committed' : undefined;
}

/**
 * Two copies of SQLite in one process undo each other's locks on a file, and damage it (sqlite.org/howtocorrupt.html, 2.2.1).
 * So svc opens the application's file with the application's own driver. It closes the file as soon as that driver turns out to
 * be another one.
 */
const used = shared('sqlite-driver', () => ({
  first: undefined as SqliteDriver | undefined,
  /** Files for which the application uses another driver. */
  onFile: new Map<string, SqliteDriver>(),
  /** A driver without a patch. */
  foreign: undefined as string | undefined,
  /** Of stores with an open file. */
  listeners: new Set<() => void>(),
}));

function usedDriver(path: string): SqliteDriver | undefined {
  return used.onFile.get(realPath(path)) ?? used.first;
}

/**
 * The file of a URL, and the driver that opens it.
 *
 * @param load a driver to use whatever the application uses
 */
export function sqliteFile(url: string, load?: () => SqliteDriver | Promise<SqliteDriver>) {
  const path = pathOf(url);
  return {
    path,
    /** The driver as long as the application has loaded none. */
    load: load ?? loadSqlite,
    /** The application's driver for this file, once it has loaded one. */
    usedDriver: () => (load === undefined ? usedDriver(path) : undefined),
    /** The name of a driver with its own SQLite, if svc would open the file beside it. */
    foreign: () => (load === undefined && usedDriver(path) === undefined ? used.foreign : undefined),
    /** Calls the listener when one of these two may have changed, until the returned function is called. */
    onOtherDriver(listener: () => void): () => void {
      used.listeners.add(listener);
      return () => void used.listeners.delete(listener);
    },
  };
}

/** Before the application can open a file with it. Drivers that svc loads do not count. */
function driverIsLoaded(driver: SqliteDriver): void {
  if (isOwnWork() || used.first !== undefined) return;
  used.first = driver;
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

/** How long the start waits for another process that has the file. */
const busyMs = 2_000;

function prepareAtOnce(url: string, table: string): void {
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
    // Before the application opens it, because two copies of SQLite undo each other's locks.
    database.close();
  }
}

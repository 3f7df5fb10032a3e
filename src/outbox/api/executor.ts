import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { Dialect } from '../../transaction/driver.ts';

/** The smallest interface for the outbox: a function that sends a statement within an open transaction. */
export interface OutboxPort {
  readonly dialect: Dialect;
  /** `sql` uses the parameter style of the database: `$1` (PostgreSQL) or `?`. */
  execute(sql: string, params: unknown[]): unknown;
}

/** A recognized executor. */
export interface Executor {
  readonly dialect: Dialect;
  /** The connection of the driver, if accessible. */
  readonly handle?: object | undefined;
  /** Not on a driver that svc follows. */
  readonly isForeign?: boolean;
  /** The object itself reports that it is in no transaction. */
  readonly isOutside?: boolean;
  /** `undefined`: the driver is synchronous, and the statement has ended. */
  execute(sql: string, params: readonly unknown[]): Promise<unknown> | undefined;
  /** Number of changed rows. Only for drivers, because libraries return them in different ways. */
  changed?(sql: string, params: readonly unknown[]): Promise<number>;
}

/**
 * An open transaction: a client of `pg`, a connection of `mysql2` or `mariadb`, a handle of `node:sqlite` or `better-sqlite3`,
 * `sql` of postgres.js within `begin`, the transaction object of an ORM, or an `OutboxPort`.
 */
export type OutboxExecutor = OutboxPort | object;

/** A source of transactions: a pool or connection of a driver, `sql` of postgres.js, the database object of an ORM. */
export type OutboxDataSource = object;

// biome-ignore-start lint/suspicious/noExplicitAny: the types of other packages, of which one parameter is looked for
/** The argument of `work` in `runInTransaction`: the driver's or library's transaction, or its connection. */
export type TransactionOf<Source> = Source extends {
  totalCount: number;
  connect(callback: (error: any, client: infer Client, done: any) => void): void;
}
  ? NonNullable<Client>
  : Source extends { getConnection(): Promise<infer Connection> }
    ? Connection
    : Source extends { getConnection(callback: (error: any, connection: infer Connection) => any): void }
      ? Connection
      : Source extends { begin(options: string, work: (sql: infer Sql) => any): any }
        ? Sql
        : Source extends { transaction(): { execute(work: (transaction: infer Trx) => any): any } }
          ? Trx
          : Source extends { prepare(sql: string): any; exec(sql: string): any }
            ? Source
            : any;
// biome-ignore-end lint/suspicious/noExplicitAny: as above

/** @throws SvcError `SVC_OUTBOX_EXECUTOR` */
export function executorOf(given: unknown): Executor {
  const found = portExecutor(given) ?? driverExecutor(given) ?? ormExecutor(given);
  if (found !== undefined) return found;
  throw new SvcError(
    'SVC_OUTBOX_EXECUTOR',
    `the outbox cannot write through this value${isPool(given) ? ': it is a pool, but a transaction belongs to one of its connections' : ''}. It takes a client of pg, a connection of mysql2 or mariadb, a handle of node:sqlite or better-sqlite3, or sql of postgres.js. It also takes the transaction of Knex, Kysely, Drizzle, Prisma or Sequelize, and the EntityManager or QueryRunner of TypeORM or MikroORM. For others, pass { dialect: 'postgres' | 'mysql' | 'sqlite', execute(sql, params) }`,
  );
}

function portExecutor(given: unknown): Executor | undefined {
  if (!can(given, 'execute')) return undefined;
  const { dialect } = given as { dialect?: unknown };
  if (dialect !== 'postgres' && dialect !== 'mysql' && dialect !== 'sqlite') return undefined;
  return { dialect, execute: async (sql, params) => given.execute(sql, [...params]) };
}

function isPool(given: unknown): boolean {
  return can(given, 'getConnection') || (isShape(given) && 'totalCount' in given);
}

export function driverExecutor(given: unknown): Executor | undefined {
  return pgClient(given) ?? mysqlConnection(given) ?? sqliteHandle(given) ?? postgresJs(given);
}

function pgClient(given: unknown): Executor | undefined {
  if (!has(given, 'connectionParameters') || !can(given, 'query')) return undefined;
  return {
    dialect: 'postgres',
    handle: given,
    execute: (sql, params) => answered((done) => given.query(sql, params, done)),
    changed: (sql, params) =>
      answered<{ rowCount: number }>((done) => given.query(sql, params, done)).then(
        (answer) => answer.rowCount,
      ),
  };
}

interface Affected {
  readonly affectedRows: number;
}

/** `mysql2` with callbacks or promises, and `mariadb` with promises. */
function mysqlConnection(given: unknown): Executor | undefined {
  const handle = can(given, 'beginTransaction') && has(given, 'connection') ? given.connection : given;
  if (can(handle, 'addCommand', 'execute'))
    return {
      dialect: 'mysql',
      handle,
      execute: (sql, params) => answered((done) => handle.execute(sql, params, done)),
      changed: (sql, params) =>
        answered<Affected>((done) => handle.execute(sql, params, done)).then((answer) => answer.affectedRows),
    };
  if (!can(given, 'beginTransaction', 'query', 'batch')) return undefined;
  return {
    dialect: 'mysql',
    isForeign: true,
    execute: async (sql, params) => given.query(sql, params),
    changed: async (sql, params) => ((await given.query(sql, params)) as Affected).affectedRows,
  };
}

interface SqliteHandle {
  readonly isTransaction?: boolean;
  readonly inTransaction?: boolean;
  prepare(sql: string): { run: Method };
}

/** `node:sqlite` or `better-sqlite3`. */
function sqliteHandle(given: unknown): Executor | undefined {
  if (!isSqliteHandle(given)) return undefined;
  const handle = given as unknown as SqliteHandle;
  return {
    dialect: 'sqlite',
    handle,
    isOutside: (handle.isTransaction ?? handle.inTransaction) === false,
    execute(sql, params) {
      handle.prepare(sql).run(...params);
      return undefined;
    },
    changed: async (sql, params) => Number(handle.prepare(sql).run(...params).changes),
  };
}

function isSqliteHandle(given: unknown): given is { exec: Method } {
  return can(given, 'exec', 'prepare', 'close') && !can(given, 'query');
}

/** Also Bun's SQL, which has the same shape. */
function postgresJs(given: unknown): Executor | undefined {
  if (typeof given !== 'function' || !can(given, 'unsafe')) return undefined;
  return {
    dialect: 'postgres',
    isForeign: true,
    isOutside: can(given, 'begin') && !can(given, 'savepoint'),
    execute: async (sql, params) => given.unsafe(sql, params),
    changed: async (sql, params) => ((await given.unsafe(sql, params)) as { count: number }).count,
  };
}

function isPostgresJs(given: unknown): given is { begin: Method } {
  return isShape(given) && can(given, 'unsafe', 'begin');
}

/** The transactions that ORMs and query builders pass to callbacks. */
function ormExecutor(given: unknown): Executor | undefined {
  for (const recognise of [knex, kysely, drizzle, typeorm, sequelize, mikroOrm, prisma]) {
    const found = recognise(given);
    if (found !== undefined) return found;
  }
  return undefined;
}

function knex(given: unknown): Executor | undefined {
  if (typeof given !== 'function' || !can(given, 'raw') || !has(given, 'client')) return undefined;
  const { isTransaction } = given as unknown as Shape;
  return executor(given.client.dialect, {
    isOutside: isTransaction !== true,
    execute: async (sql, params) => given.raw(withQuestionMarks(sql), params),
  });
}

function kysely(given: unknown): Executor | undefined {
  if (!can(given, 'executeQuery', 'getExecutor')) return undefined;
  const { isTransaction } = given as unknown as Shape;
  const { adapter } = given.getExecutor() as { adapter?: object };
  return executor(adapter?.constructor.name, {
    isOutside: isTransaction !== true,
    execute: (sql, parameters) => {
      const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
      return given.executeQuery({ sql, parameters, query, queryId: { queryId: 'svc-outbox' } });
    },
  });
}

/** It exposes the driver's connection. */
function drizzle(given: unknown): Executor | undefined {
  if (!has(given, 'session', 'dialect')) return undefined;
  return driverExecutor(given.session.client);
}

/** An EntityManager or a QueryRunner. */
function typeorm(given: unknown): Executor | undefined {
  if (!can(given, 'query') || !isShape(given)) return undefined;
  const { connection, dataSource = connection, queryRunner = given } = given as Shape;
  if (!has(dataSource, 'options') || !('type' in dataSource.options)) return undefined;
  const { isTransactionActive } = (queryRunner ?? {}) as { isTransactionActive?: boolean };
  return executor(dataSource.options.type, {
    isOutside: isTransactionActive !== true,
    execute: (sql, params) =>
      (given as { query: (...all: unknown[]) => Promise<unknown> }).query(sql, [...params]),
  });
}

function sequelize(given: unknown): Executor | undefined {
  if (!has(given, 'sequelize') || !can(given, 'commit', 'rollback')) return undefined;
  const { sequelize: database, finished } = given as { sequelize: unknown; finished?: unknown };
  if (!can(database, 'getDialect', 'query')) return undefined;
  return executor(database.getDialect(), {
    isOutside: finished !== undefined,
    execute: (sql, bind) => database.query(withNumbers(sql), { bind: [...bind], transaction: given }),
  });
}

function mikroOrm(given: unknown): Executor | undefined {
  if (!can(given, 'getTransactionContext', 'isInTransaction', 'execute', 'getPlatform')) return undefined;
  const platform = given.getPlatform() as object;
  return executor(platform.constructor.name, {
    isOutside: given.isInTransaction() !== true,
    execute: (sql, params) => given.execute(withQuestionMarks(sql), [...params], 'run'),
  });
}

function prisma(given: unknown): Executor | undefined {
  if (!can(given, '$executeRawUnsafe', '$queryRawUnsafe')) return undefined;
  return executor((given as unknown as Shape)._activeProvider, {
    // Transaction objects lack this method.
    isOutside: can(given, '$connect'),
    execute: (sql, params) =>
      /^select/i.test(sql) ? given.$queryRawUnsafe(sql, ...params) : given.$executeRawUnsafe(sql, ...params),
  });
}

const dialectNames: readonly (readonly [RegExp, Dialect])[] = [
  [/postgres|^pg|cockroach/i, 'postgres'],
  [/mysql|maria/i, 'mysql'],
  [/sqlite|libsql/i, 'sqlite'],
];

/** `undefined`: the outbox does not support the library's database. */
function executor(name: unknown, rest: Omit<Executor, 'dialect'>): Executor | undefined {
  const dialect = dialectNames.find(([pattern]) => pattern.test(String(name)))?.[1];
  // Some libraries start a query only when it is awaited, so await it here.
  return dialect && { dialect, ...rest, execute: async (sql, params) => await rest.execute(sql, params) };
}

/** In svc's statements parameters are in order, and nothing else looks like one. */
function withQuestionMarks(sql: string): string {
  return sql.replaceAll(/\$\d+/g, '?');
}

function withNumbers(sql: string): string {
  let count = 0;
  return sql.replaceAll('?', () => `$${++count}`);
}

/** A value known by its shape. Drivers and ORMs are recognized by their methods, and never loaded. */
type Shape = Readonly<Record<string, unknown>>;
// biome-ignore lint/suspicious/noExplicitAny: a method of somebody else's object
type Method = (...args: any[]) => any;

export function isShape(value: unknown): value is Shape {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

export function can<Name extends string>(value: unknown, ...names: Name[]): value is Record<Name, Method> {
  return isShape(value) && names.every((name) => typeof value[name] === 'function');
}

export function has<Name extends string>(value: unknown, ...names: Name[]): value is Record<Name, Shape> {
  return isShape(value) && names.every((name) => isShape(value[name]));
}

/** Turns a Node callback into a promise. */
function answered<R>(call: (callback: (error: unknown, result: R) => void) => void): Promise<R> {
  return new Promise((resolve, reject) => call((error, result) => (error ? reject(error) : resolve(result))));
}

/**
 * Runs `work` in a new transaction: commits when it resolves, rolls back when it rejects. Rejects when the database rolled back
 * instead of the COMMIT.
 */
export type RunTransaction = <R>(work: (executor: unknown) => Promise<R>) => Promise<R>;

/** @throws SvcError `SVC_OUTBOX_DATA_SOURCE` */
export function transactionsOf(source: unknown): RunTransaction {
  // MikroORM objects also have the methods of a pool.
  const run = looking(ofLibrary(source)) ?? ofDriver(source);
  if (run !== undefined) return run;
  throw new SvcError(
    'SVC_OUTBOX_DATA_SOURCE',
    'outbox.runInTransaction() cannot open a transaction on this value. It takes a pool or connection of pg, mysql2 or mariadb, a handle of node:sqlite or better-sqlite3, or sql of postgres.js. It also takes the database object of Knex, Kysely, Drizzle, TypeORM, Sequelize, MikroORM or Prisma. Otherwise open it yourself, and call outbox.withTransaction(executor, fn) inside',
  );
}

/** The statements of a transaction on one connection. */
interface Steps {
  begin(): unknown;
  /** Throws if the database did not commit. */
  commit(): unknown;
  rollback(): unknown;
  /** Returns the connection to its pool. `isBroken`: the rollback failed. */
  release?(isBroken: boolean): void;
}

async function runSteps<R>(
  executor: unknown,
  steps: Steps,
  work: (executor: unknown) => Promise<R>,
): Promise<R> {
  let isBroken = false;
  try {
    await steps.begin();
    const result = await work(executor);
    await steps.commit();
    return result;
  } catch (error) {
    try {
      await steps.rollback();
    } catch {
      // The first error is the one to report.
      isBroken = true;
    }
    throw error;
  } finally {
    steps.release?.(isBroken);
  }
}

function ofDriver(source: unknown): RunTransaction | undefined {
  if (isSqliteHandle(source)) return onSqlite(source, source);
  if (isPostgresJs(source)) return looking((work) => source.begin(work));
  if (can(source, 'query') && has(source, 'connectionParameters')) return (work) => onPgClient(source, work);
  if (can(source, 'connect', 'query') && isShape(source) && 'totalCount' in source)
    return async (work) => {
      const client = await source.connect();
      // A connection lost between two statements emits `error`. Only svc holds this client, so without a listener the process would
      // end.
      if (can(client, 'on')) client.on('error', ignore);
      return onPgClient(client, work, (isBroken) => {
        client.release(isBroken);
        if (can(client, 'removeListener')) client.removeListener('error', ignore);
      });
    };
  if (can(source, 'getConnection')) return onMysqlPool(source);
  if (can(source, 'beginTransaction')) return (work) => onMysqlConnection(source, source, work);
  return undefined;
}

const ignore = (): void => {};

function onPgClient<R>(
  client: { query: (sql: string) => Promise<{ command?: string }> },
  work: (executor: unknown) => Promise<R>,
  release?: (isBroken: boolean) => void,
): Promise<R> {
  return runSteps(
    client,
    {
      begin: () => client.query('BEGIN'),
      async commit() {
        // After a failed statement PostgreSQL rolls back, without an error.
        const { command } = await client.query('COMMIT');
        if (command === 'ROLLBACK') throw rolledBack();
      },
      rollback: () => client.query('ROLLBACK'),
      ...(release && { release }),
    },
    work,
  );
}

/** For `mysql2` with callbacks, `work` gets the connection with callbacks. */
function onMysqlPool(pool: { getConnection: (...all: never[]) => Promise<Shape> }): RunTransaction {
  const hasCallbacks = can(pool, 'promise');
  return async (work) => {
    const connection = await (hasCallbacks ? (pool.promise() as typeof pool) : pool).getConnection();
    const executor = hasCallbacks ? connection.connection : connection;
    const release = can(connection, 'release') ? () => void connection.release() : undefined;
    return onMysqlConnection(connection, executor, work, release);
  };
}

function onMysqlConnection<R>(
  given: unknown,
  executor: unknown,
  work: (executor: unknown) => Promise<R>,
  release?: () => void,
): Promise<R> {
  const connection = can(given, 'promise') ? (given.promise() as unknown) : given;
  if (!can(connection, 'beginTransaction', 'commit', 'rollback')) throw new TypeError('not a connection');
  const { beginTransaction, commit, rollback } = connection;
  return runSteps(
    executor,
    {
      begin: () => Reflect.apply(beginTransaction, connection, []),
      commit: () => Reflect.apply(commit, connection, []),
      rollback: () => Reflect.apply(rollback, connection, []),
      ...(release && { release }),
    },
    work,
  );
}

/** Other users of the handle join the transaction until it ends. */
function onSqlite(handle: { exec: (sql: string) => unknown }, executor: unknown): RunTransaction {
  const send = (sql: string) => (): unknown => handle.exec(sql);
  const steps = { begin: send('BEGIN IMMEDIATE'), commit: send('COMMIT'), rollback: send('ROLLBACK') };
  return (work) => runSteps(executor, steps, work);
}

/**
 * PostgreSQL answers COMMIT with ROLLBACK after a failed statement, and libraries hide that, so it is checked before. The driver
 * `pg` reports it. Other databases continue after a failed statement.
 */
function looking(run: RunTransaction | undefined): RunTransaction | undefined {
  if (run === undefined) return undefined;
  return (work) =>
    run(async (executor) => {
      const result = await work(executor);
      await assertNotAborted(executor);
      return result;
    });
}

async function assertNotAborted(given: unknown): Promise<void> {
  const executor = executorOf(given);
  if (executor.dialect !== 'postgres') return;
  try {
    await isolate(async () => executor.execute('SELECT 1', []));
  } catch (error) {
    throw isAborted(error) ? rolledBack() : error;
  }
}

/** Each library wraps the driver's error differently. */
function isAborted(error: unknown, depth = 0): boolean {
  if (!isShape(error) || depth > 5) return false;
  if (
    [error.code, error.originalCode].includes('25P02') ||
    /25P02|transaction is aborted/.test(String(error.message))
  )
    return true;
  const inner = [error.cause, error.original, error.parent, error.driverError, error.previous, error.meta];
  return inner.some((each) => isAborted(each, depth + 1));
}

function ofLibrary(source: unknown): RunTransaction | undefined {
  // Drizzle on SQLite: its own transactions take no async function.
  if (has(source, 'session') && isSqliteHandle(source.session.client))
    return onSqlite(source.session.client, source);
  if (can(source, '$transaction')) return (work) => source.$transaction(work);
  if (can(source, 'transactional')) return (work) => source.transactional(work);
  // Nor do those of better-sqlite3.
  if (!can(source, 'transaction') || isSqliteHandle(source)) return undefined;
  // Kysely.
  if (can(source, 'getExecutor')) return (work) => source.transaction().execute(work);
  return (work) => source.transaction(work);
}

export function rolledBack(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_ROLLED_BACK',
    'the transaction was rolled back before its COMMIT. Either a statement failed and the code continued after the error, or the code sent ROLLBACK itself. Do not catch such errors, or put statements that may fail behind a SAVEPOINT',
  );
}

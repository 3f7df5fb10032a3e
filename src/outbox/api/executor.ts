import { SvcError } from '../../ground/errors.ts';
import type { Dialect } from '../../transaction/driver.ts';

/** The smallest thing that the outbox can write through: a function that sends a statement within an open transaction. */
export interface OutboxPort {
  readonly dialect: Dialect;
  /** `sql` has its parameters as the database wants them: `$1` (PostgreSQL), `?`. */
  execute(sql: string, params: unknown[]): unknown;
}

/** What the application gave, recognised. */
export interface Executor {
  readonly dialect: Dialect;
  /** The connection as its driver has it, where that is at hand. */
  readonly handle?: object | undefined;
  /** No driver that svc follows is below. */
  readonly isForeign?: boolean;
  /** What it is itself has said: it is in no transaction. */
  readonly isOutside?: boolean;
  /** `undefined` where the driver is synchronous and the answer is there. */
  execute(sql: string, params: readonly unknown[]): Promise<unknown> | undefined;
  /** How many rows a statement has changed: of drivers alone, as the answers of libraries are all different. */
  changed?(sql: string, params: readonly unknown[]): Promise<number>;
}

/**
 * What holds an open transaction: a client of `pg`, a connection of `mysql2` or `mariadb`, a handle of `node:sqlite` or
 * `better-sqlite3`, `sql` of postgres.js within `begin`, the transaction object of an ORM, or an `OutboxPort`.
 */
export type OutboxExecutor = OutboxPort | object;

/** What opens transactions: a pool or connection of a driver, `sql` of postgres.js, the database object of an ORM. */
export type OutboxDataSource = object;

// biome-ignore-start lint/suspicious/noExplicitAny: the types of other packages, of which one parameter is looked for
/** What `runInTransaction` hands over: what the driver or the library calls a transaction, or the connection it is on. */
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
    `the outbox cannot write through what it was given${isPool(given) ? ', which is a pool: a transaction is on one of its connections' : ''}. It takes a client of pg, a connection of mysql2 or mariadb, a handle of node:sqlite or better-sqlite3, sql of postgres.js, the transaction object of Knex, Kysely, Drizzle, Prisma or Sequelize, an EntityManager or QueryRunner of TypeORM, an EntityManager of MikroORM, or { dialect: 'postgres' | 'mysql' | 'sqlite', execute(sql, params) }`,
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

/** The connections of drivers. */
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

/** Of `mysql2`, with callbacks or promises; of `mariadb` with promises. */
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

/** Of `node:sqlite` or `better-sqlite3`. */
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

export function isSqliteHandle(given: unknown): given is { exec: Method } {
  return can(given, 'exec', 'prepare', 'close') && !can(given, 'query');
}

/** And what has its form: SQL of Bun. */
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

export function isPostgresJs(given: unknown): given is { begin: Method } {
  return isShape(given) && can(given, 'unsafe', 'begin');
}

/** What the transactions of ORMs and query builders hand to their callbacks. */
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

/** It shows the connection of its driver. */
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
    // Within one it has been taken away.
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

/** `undefined` where the library speaks to a database that svc has no table in. */
function executor(name: unknown, rest: Omit<Executor, 'dialect'>): Executor | undefined {
  const dialect = dialectNames.find(([pattern]) => pattern.test(String(name)))?.[1];
  // Some of their queries begin when they are waited for: that has to be in here.
  return dialect && { dialect, ...rest, execute: async (sql, params) => await rest.execute(sql, params) };
}

/** The parameters of svc's statements stand in their order, and nothing else looks like one. */
function withQuestionMarks(sql: string): string {
  return sql.replaceAll(/\$\d+/g, '?');
}

function withNumbers(sql: string): string {
  let count = 0;
  return sql.replaceAll('?', () => `$${++count}`);
}

/** A value of which only its shape is known: drivers and ORMs are recognised by what they can do, never loaded. */
export type Shape = Readonly<Record<string, unknown>>;
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

/** Node's own form of an answer, as a promise. */
function answered<R>(call: (callback: (error: unknown, result: R) => void) => void): Promise<R> {
  return new Promise((resolve, reject) => call((error, result) => (error ? reject(error) : resolve(result))));
}

import type { Executor } from './executor.ts';
import { answered, can, has, isShape, type Method } from './shape.ts';

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

import type { SqlValue } from '../../outbox/insert-row.ts';
import { badUrl } from '../../outbox/store-error.ts';
import type { SqlRow, Statement, StatementResult } from '../sql/statement.ts';

/** One connection to a file, with either driver. Synchronous. */
export interface SqliteHandle {
  run(statement: Statement): StatementResult;
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

/** The class that a driver exports. */
export type DatabaseClass = new (path: string, options: { readonly timeout: number }) => Database;

/** Prepared statements that are kept. Operators' commands all differ. */
const mostPrepared = 50;

function handleOf(database: Database): SqliteHandle {
  const prepared = new Map<string, ReturnType<Database['prepare']>>();
  return {
    run({ sql, values, hasRows }) {
      let statement = prepared.get(sql);
      if (statement === undefined) {
        statement = database.prepare(sql);
        if (prepared.size === mostPrepared) prepared.clear();
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
export function driverOf(Class: DatabaseClass): SqliteDriver {
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
export function loadSqlite(): Promise<SqliteDriver> {
  return loadBetterSqlite().catch(loadNodeSqlite);
}

/**
 * Suppresses the warning of Node 22 that SQLite is experimental, which the application did not cause. It is suppressed only
 * during this synchronous load.
 */
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

export function pathOf(url: string): string {
  const path = /^sqlite:(?:\/\/(?=\/))?(.+)$/s.exec(url)?.[1];
  if (path === undefined) throw badUrl('for SQLite, use sqlite: and the path of a file');
  return path;
}

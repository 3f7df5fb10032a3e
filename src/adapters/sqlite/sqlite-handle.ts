import type { SqlValue } from '../../outbox/insert-row.ts';
import { badUrl } from '../../outbox/store-error.ts';
import type { SqlRow, Statement, StatementResult } from '../sql/statement.ts';

/** One connection to a file, with either driver. Everything is done when it returns. */
export interface SqliteHandle {
  run(statement: Statement): StatementResult;
  exec(sql: string): void;
  close(): void;
}

export interface SqliteDriver {
  open(path: string): SqliteHandle;
}

/** What `better-sqlite3` and `node:sqlite` have alike. */
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

/** Statements that are kept prepared; those of operators' commands differ from call to call. */
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

/** The same one for the same class. */
export function driverOf(Class: DatabaseClass): SqliteDriver {
  const driver = ofClass.get(Class) ?? { open: (path) => handleOf(new Class(path, { timeout: 0 })) };
  ofClass.set(Class, driver);
  return driver;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = 'better-sqlite3';

/** Rejects where the package is not installed, or not made for this Node. */
export async function loadBetterSqlite(): Promise<SqliteDriver> {
  const { default: Class } = (await import(packageName)) as { default: DatabaseClass };
  return driverOf(Class);
}

export function loadNodeSqlite(): SqliteDriver {
  const { DatabaseSync } = withoutWarning(() => process.getBuiltinModule('node:sqlite'));
  return driverOf(DatabaseSync as unknown as DatabaseClass);
}

/** `better-sqlite3` where that is installed. */
export function loadSqlite(): Promise<SqliteDriver> {
  return loadBetterSqlite().catch(loadNodeSqlite);
}

/**
 * Node says on the first use of it that SQLite is experimental (22.15 to 22.x): that is not the application's doing. Only that
 * one warning is kept back, and only while the module is loaded, which nothing else comes between.
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

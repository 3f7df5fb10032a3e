import { crc32 } from 'node:zlib';
import {
  besideTable,
  type DialectName,
  partsOfTable,
  quoteName,
  quoteTable,
  type SqlValue,
  timeOfMs,
} from '../../outbox/insert-row.ts';

/** One statement, its parameters written as `?`. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly SqlValue[];
  /** Whether it returns rows. If not, `count` is the number of changed rows. */
  readonly hasRows: boolean;
  /** Statements without values only: read along an index, row by row, whatever the statistics of the table say. */
  readonly isInOrder?: boolean;
}

export type SqlRow = Readonly<Record<string, unknown>>;

export interface StatementResult {
  readonly rows: readonly SqlRow[];
  readonly count: number;
}

/**
 * Statements that depend on each other's results. The logic exists once, and each database runs it in its own way. Servers
 * await each statement. SQLite runs all of them without a pause: otherwise the application would wait for svc's lock, and block
 * the thread that has to release it.
 */
export type Work<T> = Generator<Statement, T, StatementResult>;

export function* query(sql: string, ...values: readonly SqlValue[]): Work<readonly SqlRow[]> {
  return (yield { sql, values, hasRows: true }).rows;
}

/** Returns the number of changed rows. */
export function* command(sql: string, ...values: readonly SqlValue[]): Work<number> {
  return (yield { sql, values, hasRows: false }).count;
}

export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

export function runWorkAtOnce<T>(work: Work<T>, run: (statement: Statement) => StatementResult): T {
  let step = work.next();
  while (!step.done) {
    let result: StatementResult;
    try {
      result = run(step.value);
    } catch (error) {
      step = work.throw(error);
      continue;
    }
    step = work.next(result);
  }
  return step.value;
}

export interface Dialect {
  readonly name: DialectName;
  /** The database's clock. It is constant within one statement, so that an index can be searched with it. */
  readonly now: string;
  /** The clock and a parameter in milliseconds. */
  readonly nowPlusMs: string;
  readonly nowMinusMs: string;
  /** A parameter in milliseconds since the epoch, as a time of the tables. */
  readonly timeOfMs: string;
  /** A time in milliseconds since the epoch. */
  msOf(time: string): string;
  /** Compares a text exactly, whatever the collation. */
  equals(column: string): string;
  isOneOf(column: string, numbers: readonly number[]): Condition;
  /** Among the results of a query, which runs once. */
  isIn(column: string, select: string): string;
  /** Follows the table's name. Forces an index where the database would choose another one. */
  useIndex(index: string): string;
  /** `INSERT` that skips existing rows. */
  insertMissing(table: string, columns: string, rows: string): string;
  /** Stores `owner` with a new time. Parameters: the owner, milliseconds, and milliseconds again. */
  aliveUntil(table: string): string;
  /** Not needed in SQLite, where a writing transaction is alone in the file. */
  readonly locks: Locks | undefined;
}

/** Named locks: one instance of many does a task. A lock ends with the transaction, or with `unlock`. */
interface Locks {
  /** `false`: another instance holds it. */
  tryLock(name: string): Work<boolean>;
  /** Waits for it, `limitMs` at most. */
  lock(name: string, limitMs: number): Work<boolean>;
  unlock?(name: string): Work<void>;
}

const postgres: Dialect = {
  name: 'postgres',
  // Not clock_timestamp(), which no index can use. Not now(), which stands still in a transaction that waits.
  now: 'statement_timestamp()',
  nowPlusMs: `(statement_timestamp() + ?::float8 * interval '1 millisecond')`,
  nowMinusMs: `(statement_timestamp() - ?::float8 * interval '1 millisecond')`,
  timeOfMs: timeOfMs.postgres,
  msOf: (time) => `(EXTRACT(EPOCH FROM ${time}) * 1000)`,
  equals: (column) => `${column} = ?`,
  isOneOf: (column, numbers) => ({
    sql: `${column} = ANY(?::bigint[])`,
    values: [`{${integers(numbers).join(',')}}`],
  }),
  // As an array: a join with IN would look up each shard in all the ids.
  isIn: (column, select) => `${column} = ANY(ARRAY(${select}))`,
  useIndex: () => '',
  insertMissing: (table, columns, rows) =>
    `INSERT INTO ${table} (${columns}) VALUES ${rows} ON CONFLICT DO NOTHING`,
  aliveUntil: (table) =>
    `INSERT INTO ${table} (owner, alive_until) VALUES (?, ${postgres.nowPlusMs}) ON CONFLICT (owner) DO UPDATE SET alive_until = ${postgres.nowPlusMs}`,
  locks: {
    tryLock: tryLockInPostgres,
    *lock(name) {
      yield* query('SELECT pg_advisory_xact_lock(?, ?)', ...lockKeys(name));
      return true;
    },
  },
};

function* tryLockInPostgres(name: string): Work<boolean> {
  const sql = 'SELECT CASE WHEN pg_try_advisory_xact_lock(?, ?) THEN 1 ELSE 0 END AS locked';
  return Number((yield* query(sql, ...lockKeys(name)))[0]?.locked) === 1;
}

const mysql: Dialect = {
  name: 'mysql',
  // Not NOW(), which is in the time zone of the session.
  now: 'UTC_TIMESTAMP(3)',
  nowPlusMs: '(UTC_TIMESTAMP(3) + INTERVAL (? * 1000) MICROSECOND)',
  nowMinusMs: '(UTC_TIMESTAMP(3) - INTERVAL (? * 1000) MICROSECOND)',
  timeOfMs: timeOfMs.mysql,
  msOf: (time) => `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', ${time}) / 1000)`,
  // Its collations ignore trailing blanks.
  equals: (column) => `CAST(${column} AS BINARY) = CAST(? AS BINARY)`,
  isOneOf(column, numbers) {
    const listed = integers(numbers).join(',');
    return { sql: listed === '' ? '1 = 0' : `${column} IN (${listed})`, values: [] };
  },
  isIn: (column, select) => `${column} IN (${select})`,
  useIndex: (index) => ` FORCE INDEX (${index})`,
  insertMissing: (table, columns, rows) => `INSERT IGNORE INTO ${table} (${columns}) VALUES ${rows}`,
  aliveUntil: (table) =>
    `INSERT INTO ${table} (owner, alive_until) VALUES (?, ${mysql.nowPlusMs}) ON DUPLICATE KEY UPDATE alive_until = ${mysql.nowPlusMs}`,
  locks: {
    tryLock: (name) => lockInMysql(name, 0),
    lock: (name, limitMs) => lockInMysql(name, limitMs),
    *unlock(name) {
      yield* query(`SELECT RELEASE_LOCK(${mysqlLock})`, name);
    },
  },
};

function* lockInMysql(name: string, limitMs: number): Work<boolean> {
  const rows = yield* query(`SELECT GET_LOCK(${mysqlLock}, ?) AS locked`, name, Math.ceil(limitMs / 1_000));
  return Number(rows[0]?.locked) === 1;
}

/** Locks belong to the server, so the database is part of their names. */
const mysqlLock = `CONCAT('svc-outbox-', MD5(CONCAT(COALESCE(DATABASE(), ''), ' ', ?)))`;

const sqliteNow = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`;

const sqlite: Dialect = {
  name: 'sqlite',
  now: sqliteNow,
  nowPlusMs: `(${sqliteNow} + ?)`,
  nowMinusMs: `(${sqliteNow} - ?)`,
  timeOfMs: timeOfMs.sqlite,
  // node:sqlite throws for integers that a JavaScript number cannot hold.
  msOf: (time) => `(${time} * 1.0)`,
  equals: (column) => `${column} = ?`,
  isOneOf: (column, numbers) => ({
    sql: `${column} IN (SELECT value FROM json_each(?))`,
    values: [JSON.stringify(integers(numbers))],
  }),
  isIn: (column, select) => `${column} IN (${select})`,
  useIndex: () => '',
  insertMissing: (table, columns, rows) => `INSERT OR IGNORE INTO ${table} (${columns}) VALUES ${rows}`,
  aliveUntil: (table) =>
    `INSERT INTO ${table} (owner, alive_until) VALUES (?, ${sqlite.nowPlusMs}) ON CONFLICT (owner) DO UPDATE SET alive_until = ${sqlite.nowPlusMs}`,
  locks: undefined,
};

export const dialects: Readonly<Record<DialectName, Dialect>> = { postgres, mysql, sqlite };

/** The two numbers of an advisory lock. */
function lockKeys(name: string): readonly [number, number] {
  return [crc32('svc outbox') | 0, crc32(name) | 0];
}

/** JavaScript numbers beyond it are not exact: the next id would equal this one. */
export const highestId: number = Number.MAX_SAFE_INTEGER;

/** The numbers become part of a statement, so everything else is dropped. */
export function integers(numbers: readonly number[]): readonly number[] {
  return numbers.filter((number) => Number.isSafeInteger(number));
}

export interface Tables {
  readonly rows: string;
  readonly shards: string;
  readonly relays: string;
  readonly schema: string;
  /** The index on the status, in MySQL. */
  readonly statusIndex: string;
}

export function tablesOf(dialect: DialectName, table: string): Tables {
  return {
    rows: quoteTable(dialect, table),
    shards: quoteTable(dialect, table, '_shard'),
    relays: quoteTable(dialect, table, '_relay'),
    schema: quoteTable(dialect, table, '_schema'),
    statusIndex: quoteName(dialect, besideTable(partsOfTable(table)?.name ?? table, '_status')),
  };
}

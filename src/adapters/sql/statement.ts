import { crc32 } from 'node:zlib';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
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
  /** Whether it gives rows; else it is counted what it changed. */
  readonly hasRows: boolean;
  /** Without values: read along an index, row by row, whatever the database has come to believe about the table. */
  readonly isInOrder?: boolean;
}

export type SqlRow = Readonly<Record<string, unknown>>;

export interface StatementResult {
  readonly rows: readonly SqlRow[];
  /** Rows that were changed. */
  readonly count: number;
}

/**
 * Statements that follow from each other's results. The logic stands once, and each database runs it its own way: servers with
 * an `await` per statement, SQLite in one go, as an application that is let in between would wait for our lock, and block
 * the thread that has to give it back.
 */
export type Work<T> = Generator<Statement, T, StatementResult>;

export function* query(sql: string, ...values: readonly SqlValue[]): Work<readonly SqlRow[]> {
  return (yield { sql, values, hasRows: true }).rows;
}

/**
 * The statistics of a queue are always those of another hour: with an empty table in mind, PostgreSQL would sort the whole
 * backlog for each batch, to take the first rows of it.
 */
export function* queryInOrder(sql: string): Work<readonly SqlRow[]> {
  return (yield { sql, values: [], hasRows: true, isInOrder: true }).rows;
}

/** Returns how many rows it changed. */
export function* command(sql: string, ...values: readonly SqlValue[]): Work<number> {
  return (yield { sql, values, hasRows: false }).count;
}

/** A piece of a condition, with its parameters. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

export async function runWork<T>(
  work: Work<T>,
  run: (statement: Statement) => Promise<StatementResult>,
): Promise<T> {
  let step = work.next();
  while (!step.done) {
    let result: StatementResult;
    try {
      result = await run(step.value);
    } catch (error) {
      step = work.throw(error);
      continue;
    }
    step = work.next(result);
  }
  return step.value;
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

/** What the three databases say differently. */
export interface Dialect {
  readonly name: DialectName;
  /** The database's clock, the same within one statement, so that an index can be searched with it. */
  readonly now: string;
  /** The clock and a parameter in milliseconds. */
  readonly nowPlusMs: string;
  readonly nowMinusMs: string;
  /** A parameter in milliseconds since the epoch, as a time of the tables. */
  readonly timeOfMs: string;
  /** Milliseconds since the epoch of a time. */
  msOf(time: string): string;
  /** Exactly the text that is a parameter, whatever the collation. */
  equals(column: string): string;
  isOneOf(column: string, numbers: readonly number[]): Condition;
  /** Among what a query gives, which is asked once. */
  isIn(column: string, select: string): string;
  /** To read along an index where the database would take another one: stands after the table. */
  useIndex(index: string): string;
  /** `INSERT`, a row that is there already aside. */
  insertMissing(table: string, columns: string, rows: string): string;
  /** Stores `owner` with a new time. Parameters: the owner, milliseconds, and milliseconds again. */
  aliveUntil(table: string): string;
  /** None in SQLite: a transaction that writes is alone in the file. */
  readonly locks: Locks | undefined;
}

/** So that one instance of many does what is named. They end with the transaction, or are given back before. */
interface Locks {
  /** `false`: another has it. */
  tryLock(name: string): Work<boolean>;
  /** Waits for it, `limitMs` at most. */
  lock(name: string, limitMs: number): Work<boolean>;
  unlock?(name: string): Work<void>;
}

const postgres: Dialect = {
  name: 'postgres',
  // Not clock_timestamp(), which no index can be searched with, nor now(), which stands still in a transaction that waits.
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
  // As an array: joined with IN, each shard would be looked for in all the ids.
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

export function* tryLockInPostgres(name: string): Work<boolean> {
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
  // Its collations take texts for equal that end in blanks.
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

/** Locks are the server's: the database is part of their names. */
export const mysqlLock = `CONCAT('svc-outbox-', MD5(CONCAT(COALESCE(DATABASE(), ''), ' ', ?)))`;

const sqliteNow = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`;

const sqlite: Dialect = {
  name: 'sqlite',
  now: sqliteNow,
  nowPlusMs: `(${sqliteNow} + ?)`,
  nowMinusMs: `(${sqliteNow} - ?)`,
  timeOfMs: timeOfMs.sqlite,
  // What is beyond the numbers of JavaScript, node:sqlite throws.
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
export function lockKeys(name: string): readonly [number, number] {
  return [crc32('svc outbox') | 0, crc32(name) | 0];
}

/** Beyond it a number of JavaScript is not exact: the next id would pass for this one. */
export const highestId: number = Number.MAX_SAFE_INTEGER;

/** They stand in a statement: nothing else gets through. */
export function integers(numbers: readonly number[]): readonly number[] {
  return numbers.filter((number) => Number.isSafeInteger(number));
}

/** The tables of one outbox, as they stand in a statement. */
export interface Tables {
  readonly rows: string;
  readonly shards: string;
  readonly relays: string;
  readonly schema: string;
  /** Of the statuses, in MySQL. */
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

/** What of a stored row becomes the record, as it was found: SQLite stores anything in any column. */
export interface FoundRecord {
  readonly topic: unknown;
  readonly key: unknown;
  /** Read as JSON; `undefined`: it was none. */
  readonly headers: unknown;
  readonly payload: unknown;
}

/** Characters of a name that is told. */
const longestName = 60;

/**
 * Why a row cannot become a record; `undefined` where it can. Rows of svc always can; in what somebody else has inserted, one of them would
 * be refused by the client each time, and look as if the cluster were away.
 */
export function rowFault({ topic, key, headers, payload }: FoundRecord): string | undefined {
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return `its topic must be ${topicNameForm}`;
  if (typeof key !== 'string') return 'its record_key must be a text';
  if (!Buffer.isBuffer(payload)) return 'its payload must be bytes';
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    return 'its headers must be an object in JSON';
  for (const [name, text] of Object.entries(headers))
    if (typeof text !== 'string')
      return `its header ${JSON.stringify(name.slice(0, longestName))} must be a text`;
  return undefined;
}

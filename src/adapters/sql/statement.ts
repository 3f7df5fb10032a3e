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
import { shardCount } from '../../outbox/outbox-row.ts';
import { rowStatuses } from '../../outbox/outbox-store.ts';

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
  /** Changed rows. */
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

/**
 * The statistics of a queue are always outdated. If they show an empty table, PostgreSQL sorts the whole backlog for each
 * batch, to take its first rows.
 */
export function* queryInOrder(sql: string): Work<readonly SqlRow[]> {
  return (yield { sql, values: [], hasRows: true, isInOrder: true }).rows;
}

/** Returns the number of changed rows. */
export function* command(sql: string, ...values: readonly SqlValue[]): Work<number> {
  return (yield { sql, values, hasRows: false }).count;
}

/** A part of a condition, with its parameters. */
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

/** The differences between the three databases. */
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
  // Not clock_timestamp(), which no index can be searched with. Not now() either, which stands still in a transaction that
  // waits.
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
export const mysqlLock = `CONCAT('svc-outbox-', MD5(CONCAT(COALESCE(DATABASE(), ''), ' ', ?)))`;

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
export function lockKeys(name: string): readonly [number, number] {
  return [crc32('svc outbox') | 0, crc32(name) | 0];
}

/** JavaScript numbers beyond it are not exact: the next id would equal this one. */
export const highestId: number = Number.MAX_SAFE_INTEGER;

/** The numbers become part of a statement, so everything else is dropped. */
export function integers(numbers: readonly number[]): readonly number[] {
  return numbers.filter((number) => Number.isSafeInteger(number));
}

/** The quoted tables of one outbox. */
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

/** The columns that become the record, unchecked: SQLite stores any value in any column. */
export interface FoundRecord {
  readonly topic: unknown;
  readonly key: unknown;
  /** Parsed JSON; `undefined`: not JSON. */
  readonly headers: unknown;
  readonly payload: unknown;
}

/** Characters of a name in a message. */
const longestName = 60;

/**
 * Why a row cannot become a record; `undefined` if it can. Rows of svc always can. The client would refuse a bad row of another
 * program each time, which would look like an outage of the cluster.
 */
export function rowFault({ topic, key, headers, payload }: FoundRecord): string | undefined {
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return `its topic must be ${topicNameForm}`;
  if (typeof key !== 'string') return 'its record_key must be a string';
  if (!Buffer.isBuffer(payload)) return 'its payload must be bytes';
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    return 'its headers must be an object in JSON';
  for (const [name, text] of Object.entries(headers))
    if (typeof text !== 'string')
      return `its header ${JSON.stringify(name.slice(0, longestName))} must be a string`;
  return undefined;
}

/** The statements of version 1. `partitionedFrom`: PostgreSQL, in days from that time on. */
export function firstVersion(
  dialect: DialectName,
  table: string,
  { partitionedFrom }: { readonly partitionedFrom?: number | undefined },
): readonly string[] {
  const { shards } = tablesOf(dialect, table);
  const numbers = Array.from({ length: shardCount }, (_, shard) => `(${shard})`).join(', ');
  const made = makers[dialect](table, partitionedFrom);
  return [...made, dialects[dialect].insertMissing(shards, 'shard', numbers)];
}

export const innodb = ' ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

const makers: Readonly<
  Record<DialectName, (table: string, partitionedFrom: number | undefined) => readonly string[]>
> = {
  postgres: (table, partitionedFrom) => {
    const { rows, shards, relays } = tablesOf('postgres', table);
    const isPartitioned = partitionedFrom !== undefined;
    // The key of a partitioned table must contain the partition column.
    return [
      `CREATE TABLE IF NOT EXISTS ${rows} (
  id bigint GENERATED ALWAYS AS IDENTITY${isPartitioned ? '' : ' PRIMARY KEY'},
  event_id text NOT NULL,
  aggregate_type text NOT NULL,
  aggregate_id text NOT NULL,
  event_type text NOT NULL,
  topic text NOT NULL,
  record_key text NOT NULL,
  headers text NOT NULL,
  payload bytea NOT NULL,
  status text NOT NULL DEFAULT 'PENDING',
  shard smallint NOT NULL,
  retry_count integer NOT NULL DEFAULT 0,
  last_error text,
  next_retry_at timestamptz,
  occurred_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
  published_at timestamptz,
  failed_at timestamptz,${isPartitioned ? '\n  PRIMARY KEY (id, created_at),' : ''}
  ${validConstraint('postgres', table)}
)${isPartitioned ? ' PARTITION BY RANGE (created_at)' : rowSettings}`,
      ...(isPartitioned ? firstPartitions(table, partitionedFrom) : []),
      index('postgres', table, 'pending', '(id, shard)', 'PENDING'),
      index('postgres', table, 'failed', '(id)', 'FAILED'),
      index('postgres', table, 'published', '(published_at, created_at)', 'PUBLISHED'),
      `CREATE TABLE IF NOT EXISTS ${shards} (shard smallint PRIMARY KEY, owner text, lease_until timestamptz) WITH (fillfactor = 50)`,
      `CREATE TABLE IF NOT EXISTS ${relays} (owner text PRIMARY KEY, alive_until timestamptz NOT NULL) WITH (fillfactor = 50)`,
    ];
  },
  mysql: (table) => {
    const { rows, shards, relays, statusIndex } = tablesOf('mysql', table);
    // MySQL has no partial indexes, so these begin with the status.
    return [
      `CREATE TABLE IF NOT EXISTS ${rows} (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  event_id varchar(255) NOT NULL,
  aggregate_type text NOT NULL,
  aggregate_id text NOT NULL,
  event_type text NOT NULL,
  topic text NOT NULL,
  record_key text NOT NULL,
  headers longtext NOT NULL,
  payload longblob NOT NULL,
  status varchar(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'PENDING',
  shard smallint NOT NULL,
  retry_count int NOT NULL DEFAULT 0,
  last_error text,
  next_retry_at datetime(3),
  occurred_at datetime(3) NOT NULL,
  created_at datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  published_at datetime(3),
  failed_at datetime(3),
  KEY ${statusIndex} (status, id, shard),
  KEY ${quoteName('mysql', besideTable(nameOf(table), '_published'))} (status, published_at, created_at),
  ${validConstraint('mysql', table)}
)${innodb}`,
      `CREATE TABLE IF NOT EXISTS ${shards} (shard smallint NOT NULL PRIMARY KEY, owner varchar(255), lease_until datetime(3))${innodb}`,
      `CREATE TABLE IF NOT EXISTS ${relays} (owner varchar(255) NOT NULL PRIMARY KEY, alive_until datetime(3) NOT NULL)${innodb}`,
    ];
  },
  sqlite: (table) => {
    const { rows, shards, relays } = tablesOf('sqlite', table);
    return [
      `CREATE TABLE IF NOT EXISTS ${rows} (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL,
  aggregate_type TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  topic TEXT NOT NULL,
  record_key TEXT NOT NULL,
  headers TEXT NOT NULL,
  payload BLOB NOT NULL,
  status TEXT NOT NULL DEFAULT 'PENDING',
  shard INTEGER NOT NULL,
  retry_count INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  next_retry_at INTEGER,
  occurred_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL DEFAULT (${dialects.sqlite.now}),
  published_at INTEGER,
  failed_at INTEGER
)`,
      index('sqlite', table, 'pending', '(id, shard)', 'PENDING'),
      index('sqlite', table, 'failed', '(id)', 'FAILED'),
      index('sqlite', table, 'published', '(published_at, created_at)', 'PUBLISHED'),
      `CREATE TABLE IF NOT EXISTS ${shards} (shard INTEGER PRIMARY KEY, owner TEXT, lease_until INTEGER)`,
      `CREATE TABLE IF NOT EXISTS ${relays} (owner TEXT PRIMARY KEY, alive_until INTEGER NOT NULL)`,
    ];
  },
};

const nameOf = (table: string): string => partsOfTable(table)?.name ?? table;

/**
 * PENDING by (id, shard), not by (shard, id). A relay with many shards reads in the order of ids, and skips other shards within
 * the index. With the shard first, it would sort the whole backlog for each batch.
 */
function index(
  dialect: 'postgres' | 'sqlite',
  table: string,
  name: string,
  columns: string,
  status: string,
): string {
  const { schema, name: plain } = partsOfTable(table) ?? { schema: undefined, name: table };
  const named = quoteName(dialect, besideTable(plain, `_${name}`));
  // PostgreSQL creates an index beside its table. SQLite requires the schema at the index.
  return dialect === 'sqlite' && schema !== undefined
    ? `CREATE INDEX IF NOT EXISTS ${quoteName(dialect, schema)}.${named} ON ${quoteName(dialect, plain)} ${columns} WHERE status = '${status}'`
    : `CREATE INDEX IF NOT EXISTS ${named} ON ${tablesOf(dialect, table).rows} ${columns} WHERE status = '${status}'`;
}

// Guards refuse rows that no relay would find: rows of other programs, with an invalid shard, id or status.

/** For a constraint, MySQL and MariaDB copy the table, which blocks writers. Larger tables get none. */
const mostCopied = 100_000;
/** The longest time that others are blocked. */
const lockLimitSeconds = 2;

const nameOfOfValidRows = (table: string): string => partsOfTable(table)?.name ?? table;
const guardOf = (table: string, suffix = ''): string =>
  besideTable(nameOfOfValidRows(table), `_valid${suffix}`);

const statuses = rowStatuses.map((status) => `'${status}'`).join(', ');
const known = (row = ''): string =>
  `${row}shard BETWEEN 0 AND ${shardCount - 1} AND ${row}status IN (${statuses})`;
const whole = (row = ''): string => `${row}id BETWEEN 1 AND ${highestId} AND ${known(row)}`;
/** MySQL and MariaDB allow no constraint over an auto-increment column. */
const enforced = (dialect: 'postgres' | 'mysql'): string => (dialect === 'mysql' ? known() : whole());

/** For a new table. SQLite has triggers, which older tables can get as well. */
function validConstraint(dialect: 'postgres' | 'mysql', table: string): string {
  return `CONSTRAINT ${quoteName(dialect, guardOf(table))} CHECK (${enforced(dialect)})`;
}

/** The statement that makes an older table refuse such rows, whatever it holds already. In SQLite, one of two. */
function guardStatement(dialect: DialectName, table: string): string {
  if (dialect === 'sqlite') return trigger(table, 'INSERT');
  const add = `ALTER TABLE ${tablesOf(dialect, table).rows} ADD ${validConstraint(dialect, table)}`;
  return dialect === 'postgres' ? `${add} NOT VALID` : add;
}

/** As `Step` of the schema, which imports this file. */
interface GuardStep {
  readonly sql: string;
  readonly isDone?: string;
  readonly isForOlder?: boolean;
}

/** They fail on no table: neither for existing rows, nor for transactions of an application that wait. */
export function guardSteps(dialect: DialectName, table: string): readonly GuardStep[] {
  const sql = guardStatement(dialect, table);
  const { rows } = tablesOf(dialect, table);
  const found = foundGuard(dialect, table);
  if (dialect === 'sqlite') return [{ sql }, { sql: trigger(table, 'UPDATE OF id, shard, status') }];
  if (dialect === 'postgres')
    return [
      {
        sql: `DO $$ BEGIN IF NOT EXISTS (${found}) THEN SET LOCAL lock_timeout = '${lockLimitSeconds}s'; ${sql}; END IF; END $$`,
      },
    ];
  const large = `SELECT 1 FROM information_schema.TABLES WHERE ${inMysql(table)} AND TABLE_ROWS > ${mostCopied}`;
  const other = `SELECT 1 FROM ${rows} WHERE NOT (${known()})`;
  const isDone = `SELECT 1 AS done FROM DUAL WHERE EXISTS (${found}) OR EXISTS (${large}) OR EXISTS (${other})`;
  // The application's statements wait behind an ALTER that waits for one of its transactions.
  const bound = `SET SESSION lock_wait_timeout = ${lockLimitSeconds}`;
  return [bound, sql].map((step) => ({ sql: step, isDone, isForOlder: true }));
}

function inMysql(table: string): string {
  const { schema, name } = partsOfTable(table) ?? { schema: undefined, name: table };
  return `TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${name}'`;
}

/** AFTER, because SQLite has not assigned the id before. */
function trigger(table: string, event: string): string {
  const { schema, name } = partsOfTable(table) ?? { schema: undefined, name: table };
  const named = quoteName('sqlite', guardOf(table, `_${event.slice(0, 6).toLowerCase()}`));
  const at = schema === undefined ? named : `${quoteName('sqlite', schema)}.${named}`;
  return `CREATE TRIGGER IF NOT EXISTS ${at} AFTER ${event} ON ${quoteName('sqlite', name)} WHEN NOT (${whole('NEW.')}) BEGIN SELECT RAISE(ABORT, 'no relay of svc finds such a row: see id, shard and status'); END`;
}

function foundGuard(dialect: DialectName, table: string): string {
  const { schema } = partsOfTable(table) ?? {};
  const guard = guardOf(table, dialect === 'sqlite' ? '_insert' : '');
  return {
    postgres: `SELECT 1 AS found FROM pg_constraint WHERE conrelid = to_regclass('${tablesOf(dialect, table).rows}') AND conname = '${guard}'`,
    mysql: `SELECT 1 AS found FROM information_schema.TABLE_CONSTRAINTS WHERE ${inMysql(table)} AND CONSTRAINT_NAME = '${guard}'`,
    sqlite: `SELECT 1 AS found FROM ${schema === undefined ? '' : `${quoteName('sqlite', schema)}.`}sqlite_master WHERE type = 'trigger' AND name = '${guard}'`,
  }[dialect];
}

/** The number of rows that no relay finds. */
export function* countStrays(dialect: DialectName, table: string): Work<number> {
  const sql = `SELECT COUNT(*) AS row_count FROM ${tablesOf(dialect, table).rows} WHERE NOT (${whole()})`;
  return Number((yield* query(sql))[0]?.row_count);
}

/** The statement that makes the table refuse them; `undefined`: it does already. */
export function* missingGuard(dialect: DialectName, table: string): Work<string | undefined> {
  const found = yield* query(foundGuard(dialect, table));
  return found.length > 0 ? undefined : guardStatement(dialect, table);
}

// A partitioned table of PostgreSQL: one partition for each day (UTC), and a default partition for all other rows.

/** Rows are short-lived. With the usual settings, the table would grow to a multiple of its content. */
const rowSettings =
  ' WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_cost_delay = 0)';

const dayMs = 86_400_000;
/** Today, and this many days ahead, so that some days without a change of the database do no harm. */
export const daysAhead = 3;
/** The application's INSERTs wait behind the wait for a table lock, so it is short. */
const lockLimitMs = 200;
/** Limit for statements that block INSERTs. */
const workLimitMs = 2_000;

/** As `20261122`. */
function dayOf(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10).replaceAll('-', '');
}

function nextDays(nowMs: number): readonly number[] {
  const today = Math.floor(nowMs / dayMs) * dayMs;
  return Array.from({ length: daysAhead + 1 }, (_, ahead) => today + ahead * dayMs);
}

function bounds(dayStartMs: number): readonly [from: string, to: string] {
  const text = (timeMs: number): string => `'${new Date(timeMs).toISOString().slice(0, 10)} 00:00:00+00'`;
  return [text(dayStartMs), text(dayStartMs + dayMs)];
}

const suffixOf = (dayStartMs: number): string => `_p${dayOf(dayStartMs)}`;
const defaultSuffix = '_default';

/** Created with the table, before it holds a row. */
function firstPartitions(table: string, nowMs: number): readonly string[] {
  const { rows } = tablesOf('postgres', table);
  const partition = (suffix: string, of: string): string =>
    `CREATE TABLE IF NOT EXISTS ${quoteTable('postgres', table, suffix)} PARTITION OF ${rows} ${of}${rowSettings}`;
  const days = nextDays(nowMs).map((day) => {
    const [from, to] = bounds(day);
    return partition(suffixOf(day), `FOR VALUES FROM (${from}) TO (${to})`);
  });
  return [partition(defaultSuffix, 'DEFAULT'), ...days];
}

interface PartitionWork {
  readonly isPartitioned: boolean;
  /** Days without a partition. */
  readonly missing: readonly number[];
  /** Days that ended more than `ageMs` ago, the oldest first. */
  readonly old: readonly number[];
}

/** Partitions to add and to drop. Partitions that svc has not made are ignored. */
export function* lookAtPartitions(table: string, ageMs: number): Work<PartitionWork> {
  const { rows } = tablesOf('postgres', table);
  const { msOf, now } = dialects.postgres;
  const [found] = yield* query(
    `SELECT relkind AS kind, ${msOf(now)} AS now_ms FROM pg_class WHERE oid = to_regclass(?)`,
    rows,
  );
  if (found?.kind !== 'p') return { isPartitioned: false, missing: [], old: [] };
  const nowMs = Number(found.now_ms);
  const names = yield* query(
    `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(?)`,
    rows,
  );
  const days = names
    .map(({ name }) => dayOfPartition(table, String(name)))
    .filter((day) => day !== undefined)
    .sort((one, other) => one - other);
  return {
    isPartitioned: true,
    missing: nextDays(nowMs).filter((day) => !days.includes(day)),
    old: days.filter((day) => day + dayMs < nowMs - ageMs),
  };
}

function dayOfPartition(table: string, name: string): number | undefined {
  const [, year, month, day] = /_p(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
  const start = Date.parse(`${year}-${month}-${day}T00:00:00Z`);
  if (Number.isNaN(start)) return undefined;
  return besideTable(partsOfTable(table)?.name ?? table, suffixOf(start)) === name ? start : undefined;
}

/**
 * Creates the partition and then attaches it, which blocks no INSERT of the application. `false`: another instance does it, or
 * the default partition has rows of that day, where they stay.
 */
export function* addPartition(table: string, dayStartMs: number): Work<boolean> {
  const { rows } = tablesOf('postgres', table);
  if (!(yield* takeTurn(rows))) return false;
  const partition = quoteTable('postgres', table, suffixOf(dayStartMs));
  const [there] = yield* query(
    'SELECT 1 AS found FROM pg_inherits WHERE inhparent = to_regclass(?) AND inhrelid = to_regclass(?)',
    rows,
    partition,
  );
  // Another instance was faster.
  if (there !== undefined) return false;
  const [from, to] = bounds(dayStartMs);
  const [other] = yield* query(
    `SELECT 1 AS found FROM ${quoteTable('postgres', table, defaultSuffix)} WHERE created_at >= ${from} AND created_at < ${to} LIMIT 1`,
  );
  if (other !== undefined) return false;
  yield* command(
    `CREATE TABLE IF NOT EXISTS ${partition} (LIKE ${rows} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)${rowSettings}`,
  );
  yield* command(`ALTER TABLE ${rows} ATTACH PARTITION ${partition} FOR VALUES FROM (${from}) TO (${to})`);
  return true;
}

/**
 * Drops a day whose rows have all been PUBLISHED for longer than `ageMs`. A late commit may still add a row to that day, so the
 * final check needs an exclusive lock. `false`: it has other rows, or another instance does it.
 */
export function* dropPartition(table: string, dayStartMs: number, ageMs: number): Work<boolean> {
  const { rows } = tablesOf('postgres', table);
  if (!(yield* takeTurn(rows))) return false;
  const partition = quoteTable('postgres', table, suffixOf(dayStartMs));
  if (yield* isNeeded(partition, ageMs)) return false;
  // In the order of other transactions.
  yield* command(`LOCK TABLE ONLY ${rows} IN ACCESS EXCLUSIVE MODE`);
  yield* command(`LOCK TABLE ${partition} IN ACCESS EXCLUSIVE MODE`);
  if (yield* isNeeded(partition, ageMs)) return false;
  yield* command(`DROP TABLE ${partition}`);
  return true;
}

/** Each condition uses a separate index. */
function* isNeeded(partition: string, ageMs: number): Work<boolean> {
  const some = (where: string): string => `EXISTS (SELECT 1 FROM ${partition} WHERE ${where})`;
  const kept = [
    some(`status = 'PENDING'`),
    some(`status = 'FAILED'`),
    some(`status = 'PUBLISHED' AND published_at >= ${dialects.postgres.nowMinusMs}`),
  ];
  const [found] = yield* query(`SELECT CASE WHEN ${kept.join(' OR ')} THEN 1 ELSE 0 END AS needed`, ageMs);
  return Number(found?.needed) !== 0;
}

function* takeTurn(rows: Tables['rows']): Work<boolean> {
  yield* command(`SET LOCAL lock_timeout = ${lockLimitMs}`);
  yield* command(`SET LOCAL statement_timeout = ${workLimitMs}`);
  return yield* tryLockInPostgres(`cleanup ${rows}`);
}

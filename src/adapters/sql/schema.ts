// sql/: the tables of an outbox and the statements on them, for the adapters of SQLite, PostgreSQL and MySQL.

import {
  besideTable,
  type DialectName,
  insertColumns,
  partsOfTable,
  quoteName,
  quoteTable,
} from '../../outbox/insert-row.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import { type DatabaseTraits, rowStatuses } from '../../outbox/outbox-store.ts';
import { badTable } from '../../outbox/store-error.ts';
import { writingViews } from '../../transaction/statements.ts';
import {
  command,
  type Dialect,
  dialects,
  highestId,
  query,
  type Tables,
  tablesOf,
  type Work,
} from './statement.ts';

interface Layout {
  /** PostgreSQL: rows in a partition for each day, from this time on. Milliseconds since the epoch. */
  readonly partitionedFrom?: number | undefined;
}

interface Step {
  readonly sql: string;
  /** A query that returns a row if the step is done. MySQL commits each step, so an interrupted migration starts over. */
  readonly isDone?: string | undefined;
  /** New tables have it from the first version on. */
  readonly isForOlder?: boolean | undefined;
}

/** The steps from the version before to this one. */
export interface Migration {
  readonly version: number;
  /** Each can run twice: by itself, or by its `isDone`. */
  steps(dialect: DialectName, table: string, layout: Layout): readonly Step[];
}

/**
 * During a deployment, processes of an older version run on newer tables. So a version only adds what older statements
 * tolerate: a column with a default, an index, a table. Any other change must make them fail, such as a renamed column, which
 * `tryStatements` notices.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    steps: (dialect, table, layout) => firstVersion(dialect, table, layout).map((sql) => ({ sql })),
  },
  {
    // Refuses rows that no relay would find.
    version: 2,
    steps: guardSteps,
  },
];

export const versionOf = (known: readonly Migration[]): number => known.at(-1)?.version ?? 0;

export const schemaVersion: number = versionOf(migrations);

/** The table of the version, created before all others. */
function schemaTable(dialect: DialectName, table: string): string {
  const { schema } = tablesOf(dialect, table);
  const [time, ending] = {
    postgres: ['timestamptz NOT NULL DEFAULT statement_timestamp()', ''],
    mysql: ['datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))', innodb],
    sqlite: [`INTEGER NOT NULL DEFAULT (${dialects.sqlite.now})`, ''],
  }[dialect];
  return `CREATE TABLE IF NOT EXISTS ${schema} (version integer NOT NULL PRIMARY KEY, applied_at ${time})${ending}`;
}

function noteVersion(dialect: DialectName, table: string, version: number): string {
  return dialects[dialect].insertMissing(tablesOf(dialect, table).schema, 'version', `(${version})`);
}

interface DdlOptions extends Layout {
  readonly grants?: Grantees | undefined;
  /** The existing version. Returns later steps only. Default: none. */
  readonly from?: number | undefined;
  readonly migrations?: readonly Migration[];
}

/** The tables as SQL text, to create them by hand or in migrations of the application. */
export function ddl(dialect: DialectName, table: string, options: DdlOptions = {}): string {
  if (partsOfTable(table) === undefined) throw badTable();
  const { grants = {}, from = 0, migrations: known = migrations, partitionedFrom } = options;
  const statements = [
    ...(from === 0 ? [schemaTable(dialect, table)] : []),
    ...known
      .filter(({ version }) => version > from)
      .flatMap(({ version, steps }) => [
        ...steps(dialect, table, { partitionedFrom })
          .filter(({ isForOlder }) => from > 0 || !isForOlder)
          .map(({ sql }) => sql),
        noteVersion(dialect, table, version),
      ]),
    ...grantStatements(dialect, table, grants),
  ];
  return statements.length === 0 ? '' : `${statements.join(';\n\n')};\n`;
}

const otherColumns = [
  'id',
  'status',
  'retry_count',
  'last_error',
  'next_retry_at',
  'created_at',
  'published_at',
  'failed_at',
] as const;

/** The version of the tables; 0: not made by svc. */
export function* readVersion({ schema }: Tables): Work<number> {
  const [found] = yield* query(`SELECT MAX(version) AS version FROM ${schema}`);
  return Number(found?.version ?? 0);
}

/** Runs each kind of statement on no row: a database checks rights and columns anyway, and faults show at start. */
export function* tryStatements({ rows, shards, relays }: Tables): Work<void> {
  const given = insertColumns.join(', ');
  yield* query(`SELECT ${given}, ${otherColumns.join(', ')} FROM ${rows} WHERE 1 = 0`);
  yield* command(`INSERT INTO ${rows} (${given}) SELECT ${given} FROM ${rows} WHERE 1 = 0`);
  yield* command(`UPDATE ${rows} SET status = status WHERE 1 = 0`);
  yield* command(`DELETE FROM ${rows} WHERE 1 = 0`);
  yield* command(`UPDATE ${shards} SET owner = owner, lease_until = lease_until WHERE 1 = 0`);
  yield* command(
    `INSERT INTO ${relays} (owner, alive_until) SELECT owner, alive_until FROM ${relays} WHERE 1 = 0`,
  );
  yield* command(`UPDATE ${relays} SET alive_until = alive_until WHERE 1 = 0`);
  yield* command(`DELETE FROM ${relays} WHERE 1 = 0`);
}

interface MigrateOptions extends Layout {
  /** The longest wait for another process that migrates. */
  readonly limitMs: number;
  readonly migrations?: readonly Migration[] | undefined;
}

interface Migrated {
  readonly before: number;
  readonly after: number;
}

/**
 * Migrates the tables to the next version, if there is one. Each version is one transaction, as far as the database can roll
 * back a CREATE TABLE. One process at a time: the others wait, and find it done. `undefined`: another process held the lock for
 * the whole time.
 */
export function* migrate(
  dialect: Dialect,
  table: string,
  tables: Tables,
  { limitMs, migrations: known = migrations, ...layout }: MigrateOptions,
): Work<Migrated | undefined> {
  const lock = `migrate ${tables.rows}`;
  if (dialect.locks !== undefined && !(yield* dialect.locks.lock(lock, limitMs))) return undefined;
  try {
    yield* command(schemaTable(dialect.name, table));
    const before = yield* readVersion(tables);
    const next = known.find(({ version }) => version > before);
    if (next === undefined) return { before, after: before };
    for (const { sql, isDone } of next.steps(dialect.name, table, layout))
      if (isDone === undefined || (yield* query(isDone)).length === 0) yield* command(sql);
    yield* command(noteVersion(dialect.name, table, next.version));
    return { before, after: next.version };
  } finally {
    if (dialect.locks?.unlock !== undefined) yield* dialect.locks.unlock(lock);
  }
}

interface Grantees {
  /** The user of `svc.outbox.datasource.url`. */
  readonly relay?: string | undefined;
  /** The user of the application's own connections, which insert. */
  readonly application?: string | undefined;
}

function grantStatements(dialect: DialectName, table: string, grantees: Grantees): readonly string[] {
  if (dialect === 'sqlite') return [];
  const { rows, shards, relays, schema } = tablesOf(dialect, table);
  const { schema: place } = partsOfTable(table) ?? {};
  const grant = (rights: string, on: string, who: string): string =>
    `GRANT ${rights} ON ${on} TO ${grantee(dialect, who)}`;
  const usage = (who: string): readonly string[] =>
    dialect === 'postgres' && place !== undefined
      ? [grant('USAGE', `SCHEMA ${quoteName(dialect, place)}`, who)]
      : [];
  const { relay, application } = grantees;
  const all = 'SELECT, INSERT, UPDATE, DELETE';
  return [
    ...(relay === undefined
      ? []
      : [
          ...usage(relay),
          ...[rows, shards, relays].map((on) => grant(all, on, relay)),
          grant('SELECT', schema, relay),
        ]),
    ...(application === undefined ? [] : [...usage(application), grant('INSERT', rows, application)]),
  ];
}

/** A user of MySQL may include the host that it comes from: `name@host`. */
function grantee(dialect: DialectName, who: string): string {
  if (dialect !== 'mysql') return `"${who.replaceAll('"', '""')}"`;
  const at = who.lastIndexOf('@');
  const [name, host] = at < 0 ? [who, '%'] : [who.slice(0, at), who.slice(at + 1)];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return `${quoted(name)}@${quoted(host)}`;
}

/** Needs no special rights, except for the definition of a view in MySQL. */
export function* databaseTraits({ name }: Dialect): Work<DatabaseTraits> {
  if (name === 'postgres') return { writingViews: yield* viewsOfPostgres(), maxPacketBytes: undefined };
  if (name === 'sqlite') return { writingViews: [], maxPacketBytes: undefined };
  const [found] = yield* query('SELECT @@max_allowed_packet AS bytes');
  return { writingViews: yield* viewsOfMysql(), maxPacketBytes: Number(found?.bytes) };
}

/** `pg_depend` has functions of extensions, but none of the database itself. */
const functionOf = `LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END`;

const postgresViews =
  `WITH RECURSIVE calling (oid, name) AS (` +
  `SELECT r.ev_class, p.proname FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid ${functionOf} WHERE r.ev_type = '1' ` +
  `UNION SELECT y.polrelid, p.proname FROM pg_policy y JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.objid = y.oid ${functionOf} WHERE y.polcmd IN ('*', 'r') ` +
  // Views that read another one.
  `UNION SELECT r.ev_class, c.name FROM calling c JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1' AND r.ev_class <> c.oid` +
  `) SELECT DISTINCT t.relname AS view, c.name AS function FROM calling c JOIN pg_class t ON t.oid = c.oid WHERE t.relkind <> 'm' AND t.relnamespace <> 'pg_catalog'::regnamespace AND t.relnamespace <> 'information_schema'::regnamespace`;

function* viewsOfPostgres(): Work<readonly string[]> {
  const rows = yield* query(postgresViews);
  const writing = rows.filter(
    ({ function: called }) => !writingViews.isPure(String(called).toLowerCase(), 'postgres'),
  );
  return [...new Set(writing.map(({ view }) => String(view)))];
}

/** The definition is empty without the right to see it. Such a view counts as one that writes. */
function* viewsOfMysql(): Work<readonly string[]> {
  const rows = yield* query(
    `SELECT TABLE_NAME AS name, VIEW_DEFINITION AS definition FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys', 'mysql', 'information_schema', 'performance_schema')`,
  );
  const views = rows.map(({ name, definition }) => ({
    name: String(name),
    definition: String(definition ?? ''),
  }));
  const writing = new Set<string>();
  for (const { name, definition } of views)
    if (definition === '' || writingViews.isOne(definition, 'mysql')) writing.add(name);
  // Views that read another one.
  for (let before = -1; before !== writing.size; ) {
    before = writing.size;
    for (const { name, definition } of views)
      if ([...writing].some((other) => definition.includes(`\`${other}\``))) writing.add(name);
  }
  return [...writing];
}

/** The statements of version 1. `partitionedFrom`: PostgreSQL, in days from that time on. */
function firstVersion(
  dialect: DialectName,
  table: string,
  { partitionedFrom }: { readonly partitionedFrom?: number | undefined },
): readonly string[] {
  const { shards } = tablesOf(dialect, table);
  const numbers = Array.from({ length: shardCount }, (_, shard) => `(${shard})`).join(', ');
  const made = makers[dialect](table, partitionedFrom);
  return [...made, dialects[dialect].insertMissing(shards, 'shard', numbers)];
}

const innodb = ' ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

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
const maxCopied = 100_000;

/** The longest time that others are blocked. */
const lockLimitSeconds = 2;

const nameOf = (table: string): string => partsOfTable(table)?.name ?? table;

const guardOf = (table: string, suffix = ''): string => besideTable(nameOf(table), `_valid${suffix}`);

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

/** They fail on no table: neither for existing rows, nor for transactions of an application that wait. */
function guardSteps(dialect: DialectName, table: string): readonly Step[] {
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
  const large = `SELECT 1 FROM information_schema.TABLES WHERE ${inMysql(table)} AND TABLE_ROWS > ${maxCopied}`;
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
const daysAhead = 3;

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
  const { locks } = dialects.postgres;
  return locks !== undefined && (yield* locks.tryLock(`cleanup ${rows}`));
}

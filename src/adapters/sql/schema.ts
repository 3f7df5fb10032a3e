// sql/: the tables of an outbox and what is done with them, which the adapters of SQLite, PostgreSQL and MySQL share.

import { besideTable, type DialectName, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import { dialects, tablesOf } from './dialect.ts';

export interface Migration {
  readonly version: number;
  /** What brings the tables from the version before to this one. Each can be run twice. */
  statements(dialect: DialectName, table: string): readonly string[];
}

/** Only what older versions of svc can live with is ever added: processes of several versions run side by side. */
export const migrations: readonly Migration[] = [{ version: 1, statements: firstVersion }];

export const schemaVersion: number = migrations.at(-1)?.version ?? 0;

/** The table that knows the version, made before all others. */
export function schemaTable(dialect: DialectName, table: string): string {
  const { schema } = tablesOf(dialect, table);
  const [time, ending] = {
    postgres: ['timestamptz NOT NULL DEFAULT statement_timestamp()', ''],
    mysql: ['datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))', innodb],
    sqlite: [`INTEGER NOT NULL DEFAULT (${dialects.sqlite.now})`, ''],
  }[dialect];
  return `CREATE TABLE IF NOT EXISTS ${schema} (version integer NOT NULL PRIMARY KEY, applied_at ${time})${ending}`;
}

export function noteVersion(dialect: DialectName, table: string, version: number): string {
  return dialects[dialect].insertMissing(tablesOf(dialect, table).schema, 'version', `(${version})`);
}

export interface Grantees {
  /** The user of `svc.outbox.datasource.url`. */
  readonly relay?: string | undefined;
  /** The user of the application's own connections, which insert. */
  readonly application?: string | undefined;
}

/** The tables as text: for whoever makes them by hand, or in migrations of the application. */
export function ddl(dialect: DialectName, table: string, options: { grants?: Grantees } = {}): string {
  if (partsOfTable(table) === undefined) throw badTable();
  const statements = [
    schemaTable(dialect, table),
    ...migrations.flatMap(({ version, statements: made }) => [
      ...made(dialect, table),
      noteVersion(dialect, table, version),
    ]),
    ...grantStatements(dialect, table, options.grants ?? {}),
  ];
  return `${statements.join(';\n\n')};\n`;
}

const innodb = ' ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

function firstVersion(dialect: DialectName, table: string): readonly string[] {
  const { shards } = tablesOf(dialect, table);
  const numbers = Array.from({ length: shardCount }, (_, shard) => `(${shard})`).join(', ');
  return [...makers[dialect](table), dialects[dialect].insertMissing(shards, 'shard', numbers)];
}

const makers: Readonly<Record<DialectName, (table: string) => readonly string[]>> = {
  // Rows are short-lived: the general settings would let the table grow to a multiple of what is in it.
  postgres: (table) => {
    const { rows, shards, relays } = tablesOf('postgres', table);
    return [
      `CREATE TABLE IF NOT EXISTS ${rows} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
  failed_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_cost_delay = 0)`,
      index('postgres', table, 'pending', '(id, shard)', 'PENDING'),
      index('postgres', table, 'failed', '(id)', 'FAILED'),
      index('postgres', table, 'published', '(published_at, created_at)', 'PUBLISHED'),
      `CREATE TABLE IF NOT EXISTS ${shards} (shard smallint PRIMARY KEY, owner text, lease_until timestamptz) WITH (fillfactor = 50)`,
      `CREATE TABLE IF NOT EXISTS ${relays} (owner text PRIMARY KEY, alive_until timestamptz NOT NULL) WITH (fillfactor = 50)`,
    ];
  },
  mysql: (table) => {
    const { rows, shards, relays, statusIndex } = tablesOf('mysql', table);
    // No partial indexes there: those of the table begin with the status.
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
  KEY ${quoteName('mysql', besideTable(nameOf(table), '_published'))} (status, published_at, created_at)
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
 * PENDING by (id, shard) and not the other way round: a relay that holds many shards reads in the order of ids and skips those of
 * others within the index; with the shard first it would have to sort the whole backlog for each batch.
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
  // PostgreSQL puts an index beside its table; SQLite wants the schema at the index instead.
  return dialect === 'sqlite' && schema !== undefined
    ? `CREATE INDEX IF NOT EXISTS ${quoteName(dialect, schema)}.${named} ON ${quoteName(dialect, plain)} ${columns} WHERE status = '${status}'`
    : `CREATE INDEX IF NOT EXISTS ${named} ON ${tablesOf(dialect, table).rows} ${columns} WHERE status = '${status}'`;
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

/** A user of MySQL may be given with the host that it comes from: `name@host`. */
function grantee(dialect: DialectName, who: string): string {
  if (dialect !== 'mysql') return `"${who.replaceAll('"', '""')}"`;
  const at = who.lastIndexOf('@');
  const [name, host] = at < 0 ? [who, '%'] : [who.slice(0, at), who.slice(at + 1)];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return `${quoted(name)}@${quoted(host)}`;
}

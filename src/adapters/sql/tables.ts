import { besideTable, type DialectName, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import { dialects, tablesOf } from './dialect.ts';
import { firstPartitions, rowSettings } from './partitions.ts';
import { validConstraint } from './valid-rows.ts';

/** What version 1 of the tables is made of. `partitionedFrom`: in PostgreSQL, in days from that time on. */
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
    // A key of a table in partitions holds what they are made by.
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

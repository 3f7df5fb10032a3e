import {
  besideTable,
  type DialectName,
  partsOfTable,
  placed,
  quoteName,
  quoteTable,
  timeOfMs,
} from '../outbox/insert-row.ts';

export const defaultInboxTable = 'svc_inbox_events';

/** The longest event id and the longest name of a consumer that the table holds, in characters. */
export const longestEventId = 255;
export const longestConsumer = 100;

/** What makes the table. Each statement can be run again: it then does nothing. */
export function inboxDdl(dialect: DialectName, table: string): readonly string[] {
  const name = quoteTable(dialect, table);
  const plain = partsOfTable(table)?.name ?? table;
  const handled = quoteName(dialect, besideTable(plain, '_handled'));
  const key = 'PRIMARY KEY (consumer, event_id)';
  switch (dialect) {
    case 'postgres':
      return [
        `CREATE TABLE IF NOT EXISTS ${name} (consumer text NOT NULL, event_id text NOT NULL, handled_at timestamptz NOT NULL DEFAULT statement_timestamp(), ${key})`,
        `CREATE INDEX IF NOT EXISTS ${handled} ON ${name} (consumer, handled_at)`,
      ];
    case 'mysql':
      return [
        `CREATE TABLE IF NOT EXISTS ${name} (consumer varchar(${longestConsumer}) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, event_id varchar(${longestEventId}) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, handled_at datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)), ${key}, INDEX ${handled} (consumer, handled_at)) ENGINE=InnoDB`,
      ];
    case 'sqlite':
      return [
        `CREATE TABLE IF NOT EXISTS ${name} (consumer TEXT NOT NULL, event_id TEXT NOT NULL, handled_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)), ${key}) WITHOUT ROWID`,
        `CREATE INDEX IF NOT EXISTS ${handled} ON ${name} (consumer, handled_at)`,
      ];
  }
}

/** In PostgreSQL two that make one table at the same time get in each other's way; the lock ends with the transaction. */
export const lockForDdl = 'SELECT 1 AS locked FROM pg_advisory_xact_lock(1937138944, 1768843636)';

/** A row that is there already is an error. Parameters: consumer, event id. */
export function insertEvent(dialect: DialectName, table: string): string {
  return placed(dialect, `INSERT INTO ${quoteTable(dialect, table)} (consumer, event_id) VALUES (?, ?)`);
}

/** A row that is there already is left alone, and nothing is changed. */
export function insertMissingEvent(dialect: DialectName, table: string): string {
  const insert = insertEvent(dialect, table);
  return dialect === 'mysql' ? insert.replace('INSERT', 'INSERT IGNORE') : `${insert} ON CONFLICT DO NOTHING`;
}

/**
 * Changes nothing where the row is there, and fails where it is not: of two rows the second is there already. Nobody has to read an
 * answer, as each library has its own form of it. Parameters: consumer, event id, and both again.
 */
export function assertEvent(dialect: DialectName, table: string): string {
  const name = quoteTable(dialect, table);
  return placed(
    dialect,
    `INSERT INTO ${name} (consumer, event_id) SELECT ?, ? FROM (SELECT 1 AS n UNION ALL SELECT 2) AS two WHERE NOT EXISTS (SELECT 1 FROM ${name} WHERE consumer = ? AND event_id = ?)`,
  );
}

/** Parameters: consumer, event id. */
export function forgetEvent(dialect: DialectName, table: string): string {
  return placed(dialect, `DELETE FROM ${quoteTable(dialect, table)} WHERE consumer = ? AND event_id = ?`);
}

/** Changes nothing, and fails where the table is not as it must be, or may not be written. */
export function tryTable(dialect: DialectName, table: string): string {
  const name = quoteTable(dialect, table);
  return `INSERT INTO ${name} (consumer, event_id, handled_at) SELECT consumer, event_id, handled_at FROM ${name} WHERE 1 = 0`;
}

/** Parameters: consumer, milliseconds since the epoch. `most` rows at once, all where it is not given. */
export function deleteHandled(dialect: DialectName, table: string, most?: number): string {
  const name = quoteTable(dialect, table);
  const old = `consumer = ? AND handled_at < ${timeOfMs[dialect]}`;
  if (most === undefined) return placed(dialect, `DELETE FROM ${name} WHERE ${old}`);
  if (dialect === 'mysql') return `DELETE FROM ${name} WHERE ${old} LIMIT ${most}`;
  return placed(
    dialect,
    `DELETE FROM ${name} WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM ${name} WHERE ${old} LIMIT ${most})`,
  );
}

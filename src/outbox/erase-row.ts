import { type DialectName, quoteTable, type SqlValue } from './insert-row.ts';
import type { OutboxRow } from './outbox-row.ts';

/** The column that the SQL of `svc outbox debezium` adds: the topic for the connector. */
export const routeColumn = 'debezium_topic';

/** For the name of the PostgreSQL trigger that deletes each row. */
export const eraseSuffix = '_erase';

export interface ErasureSettings {
  readonly publisherEnabled: boolean;
  readonly retentionDays: number;
}

/** Whether each row is deleted in the transaction that wrote it. A connector reads it from the database's log. */
export function erasesRows({ publisherEnabled, retentionDays }: ErasureSettings): boolean {
  return !publisherEnabled && retentionDays === 0;
}

/**
 * Deletes the row just written, directly after its INSERT; parameters: `eraseValues`. `undefined` for PostgreSQL, where a trigger
 * does it, and for SQLite, which no connector reads. Without the connector's column it fails, so rows for a relay are refused, not
 * lost.
 */
export function eraseStatement(table: string, dialect: DialectName): string | undefined {
  if (dialect !== 'mysql') return undefined;
  // `event_id` has no index. In prepared statements MySQL keeps the first value of LAST_INSERT_ID().
  return `DELETE FROM ${quoteTable(dialect, table)} WHERE id = @@last_insert_id AND event_id = ? AND ${routeColumn} IS NOT NULL`;
}

export function eraseValues({ eventId }: OutboxRow): readonly SqlValue[] {
  return [eventId];
}

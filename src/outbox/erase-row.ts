import { type DialectName, quoteTable, type SqlValue } from './insert-row.ts';
import type { OutboxRow } from './outbox-row.ts';

/** The column that the SQL of `svc outbox debezium` adds: the topic as its connector needs it. */
export const routeColumn = 'debezium_topic';

/** Of the name of the trigger that deletes each row, in PostgreSQL. */
export const eraseSuffix = '_erase';

/** Of the configuration. */
export interface ErasureSettings {
  readonly publisherEnabled: boolean;
  readonly retentionDays: number;
}

/** Whether each row is deleted in the transaction that wrote it, as a connector has it from the log of the database. */
export function erasesRows({ publisherEnabled, retentionDays }: ErasureSettings): boolean {
  return !publisherEnabled && retentionDays === 0;
}

/**
 * What deletes the row that was just written, right behind its INSERT; parameters: `eraseValues`. `undefined`: the database does that
 * itself, in PostgreSQL by a trigger, or nobody could send it, in SQLite. It needs the column of the connector: without one,
 * rows that a relay is to send are not lost, but refused.
 */
export function eraseStatement(table: string, dialect: DialectName): string | undefined {
  if (dialect !== 'mysql') return undefined;
  // Not by the event id alone, which no index has. Nor by LAST_INSERT_ID(): a prepared statement of MySQL goes on with its first value.
  return `DELETE FROM ${quoteTable(dialect, table)} WHERE id = @@last_insert_id AND event_id = ? AND ${routeColumn} IS NOT NULL`;
}

export function eraseValues({ eventId }: OutboxRow): readonly SqlValue[] {
  return [eventId];
}

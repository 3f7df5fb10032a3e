import { crc32 } from 'node:zlib';
import { SvcError } from '../ground/errors.ts';

import { fitsOutboxText, longestOutboxText } from '../ground/event-fields.ts';
import type { Dialect } from '../transaction/driver.ts';

/** One event as stored: protected and serialized, its bytes are final. */
export interface OutboxRow {
  readonly eventId: string;
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly topic: string;
  readonly key: string;
  /** Of the record, with `traceparent` and `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Buffer;
  /** When the call finished, in milliseconds since the epoch: `occurredAt` of the envelope. */
  readonly occurredAt: number;
}

/** Relays share the rows by shards. Part of the schema: must never change. */
export const shardCount = 64;

/** The shard of an aggregate: its rows have one relay at a time. */
export function shardOf({
  aggregateType,
  aggregateId,
}: Pick<OutboxRow, 'aggregateType' | 'aggregateId'>): number {
  return crc32(`${aggregateType}\n${aggregateId}`) % shardCount;
}

interface Column {
  readonly name: string;
  readonly is: 'text' | 'bytes' | 'number' | 'time';
  readonly of: (row: OutboxRow) => string | number | Buffer;
  /** Name in messages about text that is too long. */
  readonly words?: string;
}

/**
 * The columns of an application's INSERT, in the order of the table, by the fields of a row. INSERT, SELECT and the checks of rows
 * and tables derive from it. The database fills in the rest: id, status, and `created_at` by its own clock. A new column needs a
 * migration (`adapters/sql/schema.ts`), because tables of version 1 stay as they are.
 */
export const columns = {
  eventId: { name: 'event_id', is: 'text', of: (row) => row.eventId },
  aggregateType: {
    name: 'aggregate_type',
    is: 'text',
    of: (row) => row.aggregateType,
    words: 'aggregate type',
  },
  aggregateId: { name: 'aggregate_id', is: 'text', of: (row) => row.aggregateId, words: 'aggregate id' },
  eventType: { name: 'event_type', is: 'text', of: (row) => row.eventType, words: 'event type' },
  topic: { name: 'topic', is: 'text', of: (row) => row.topic, words: 'topic' },
  key: { name: 'record_key', is: 'text', of: (row) => row.key, words: 'record key' },
  headers: { name: 'headers', is: 'text', of: (row) => JSON.stringify(row.headers) },
  payload: { name: 'payload', is: 'bytes', of: (row) => row.payload },
  shard: { name: 'shard', is: 'number', of: shardOf },
  occurredAt: { name: 'occurred_at', is: 'time', of: (row) => row.occurredAt },
} as const satisfies Readonly<Record<keyof OutboxRow | 'shard', Column>>;

const boundTexts = Object.values<Column>(columns).filter(({ words }) => words !== undefined);

/**
 * Throws if a text is too long for its column, because some modes of MySQL silently cut it. For PostgreSQL also if it contains a
 * character that text cannot hold.
 */
export function checkRow(row: OutboxRow, dialect?: Dialect): void {
  for (const { of, words } of boundTexts) {
    const text = of(row) as string;
    if (dialect === 'postgres' && text.includes('\0'))
      throw new SvcError(
        'SVC_OUTBOX_INSERT',
        `the event is not stored: its ${words} has the character NUL (U+0000), which no text of PostgreSQL can hold; remove it from the ${words}`,
      );
    if (fitsOutboxText(text)) continue;
    throw new SvcError(
      'SVC_OUTBOX_TOO_LONG',
      `the event is not stored: its ${words} has more than ${longestOutboxText} bytes in UTF-8, the limit of the outbox table; use a shorter ${words}`,
    );
  }
}

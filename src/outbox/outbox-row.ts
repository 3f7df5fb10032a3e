import { crc32 } from 'node:zlib';
import { SvcError } from '../ground/errors.ts';

import { fitsOutboxText, longestOutboxText } from '../ground/event-fields.ts';
import type { Dialect } from '../transaction/driver.ts';

/** One finished event as it is stored: protected and serialized, its bytes are final. */
export interface OutboxRow {
  readonly eventId: string;
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** Where it is to be sent. */
  readonly topic: string;
  /** The record key. */
  readonly key: string;
  /** Of the record: with `traceparent` and `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The record's value. */
  readonly payload: Buffer;
  /** When the call finished, in milliseconds since the epoch: `occurredAt` of the envelope. */
  readonly occurredAt: number;
}

/** Rows are spread over so many shards; a relay holds some of them. A number of the schema: never changed. */
export const shardCount = 64;

/** The shard of an aggregate, so that its rows have one relay at a time. */
export function shardOf({
  aggregateType,
  aggregateId,
}: Pick<OutboxRow, 'aggregateType' | 'aggregateId'>): number {
  return crc32(`${aggregateType}\n${aggregateId}`) % shardCount;
}

const texts = [
  ['aggregateType', 'aggregate type'],
  ['aggregateId', 'aggregate id'],
  ['key', 'record key'],
  ['eventType', 'event type'],
  ['topic', 'topic'],
] as const;

/**
 * Throws where a text of the row is too long for its column: some modes of MySQL would cut it, without a word. Of PostgreSQL also where
 * it has a character that a text cannot hold there.
 */
export function checkRow(row: OutboxRow, dialect?: Dialect): void {
  for (const [field, name] of texts) {
    if (dialect === 'postgres' && row[field].includes('\0'))
      throw new SvcError(
        'SVC_OUTBOX_INSERT',
        `the event is not stored: its ${name} has the character NUL (U+0000), which no text of PostgreSQL can hold; remove it of the ${name}`,
      );
    if (fitsOutboxText(row[field])) continue;
    throw new SvcError(
      'SVC_OUTBOX_TOO_LONG',
      `the event is not stored: its ${name} has more than ${longestOutboxText} bytes in UTF-8, the limit of the outbox table; use a shorter ${name}`,
    );
  }
}

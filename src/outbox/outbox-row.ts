import { crc32 } from 'node:zlib';

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

import type { SerializedEvent } from '../serialize/serializer.ts';
import type { BrokerRecord } from './broker.ts';

/** The record of an event that is handed over now: `publishedAt` and the record's time are the same. */
export function toRecord({ head, tail, key, headers }: SerializedEvent, nowMs: number): BrokerRecord {
  return { key, value: Buffer.from(head + new Date(nowMs).toISOString() + tail), headers, timestamp: nowMs };
}

import type { SerializedEvent } from '../serialize/serializer.ts';
import type { BrokerRecord } from './broker.ts';

/** The record of an event that is handed over now: `publishedAt` and the record's time are the same. */
export function toRecord({ head, tail, key, headers }: SerializedEvent, nowMs: number): BrokerRecord {
  const publishedAt = new Date(nowMs).toISOString();
  const headBytes = Buffer.byteLength(head);
  const tailBytes = Buffer.byteLength(tail);
  // Part by part: the whole as one string would be garbage as large as the record.
  const value = Buffer.allocUnsafe(headBytes + publishedAt.length + tailBytes);
  write(value, head, 0, headBytes);
  write(value, publishedAt, headBytes, publishedAt.length);
  write(value, tail, headBytes + publishedAt.length, tailBytes);
  return { key, value, headers, timestamp: nowMs };
}

/** A text that is as many bytes as characters is ASCII, and only copied. */
function write(to: Buffer, text: string, at: number, bytes: number): void {
  to.write(text, at, bytes, bytes === text.length ? 'latin1' : 'utf8');
}

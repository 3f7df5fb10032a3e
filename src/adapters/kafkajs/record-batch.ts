import type { BrokerRecord } from '../../publish/broker.ts';
import { crc32c } from './crc32c.ts';

// Kafka's record batch, version 2: https://kafka.apache.org/documentation/#recordbatch

const headBytes = 61;
const lengthAt = 8;
const magicAt = 16;
const crcAt = 17;
/** The checksum is over everything from here on. */
const attributesAt = 21;
const lastOffsetDeltaAt = 23;
const firstTimestampAt = 27;
const maxTimestampAt = 35;
const producerIdAt = 43;
const recordCountAt = 57;

/** The records as one uncompressed batch of a producer without an id, in one pass over one buffer. */
export function encodeRecordBatch(records: readonly BrokerRecord[]): Buffer {
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const { timestamp } of records) {
    if (timestamp < firstMs) firstMs = timestamp;
    if (timestamp > lastMs) lastMs = timestamp;
  }
  const sizes = records.map((record, index) => bodyBytes(record, index, record.timestamp - firstMs));
  const size = sizes.reduce((sum, bytes) => sum + varintBytes(bytes) + bytes, headBytes);
  // Not out of the pool of small buffers: aligned, which the checksum is quicker on.
  const batch = Buffer.allocUnsafeSlow(size);
  batch.fill(0, 0, headBytes);
  batch.writeInt32BE(size - lengthAt - 4, lengthAt);
  batch.writeInt8(2, magicAt);
  batch.writeInt32BE(records.length - 1, lastOffsetDeltaAt);
  batch.writeBigInt64BE(BigInt(firstMs), firstTimestampAt);
  batch.writeBigInt64BE(BigInt(lastMs), maxTimestampAt);
  batch.writeBigInt64BE(-1n, producerIdAt);
  batch.writeInt32BE(records.length, recordCountAt);
  let at = headBytes;
  for (const [index, record] of records.entries()) {
    at = writeVarint(batch, at, sizes[index] as number);
    at = writeBody(batch, at, record, index, record.timestamp - firstMs);
  }
  batch.writeInt32BE(crc32c(batch, attributesAt, size), crcAt);
  return batch;
}

function bodyBytes({ key, value, headers }: BrokerRecord, offsetDelta: number, timeDelta: number): number {
  let bytes = 1 + varintBytes(timeDelta) + varintBytes(offsetDelta);
  bytes += key === null ? 1 : textBytes(key);
  bytes += varintBytes(value.length) + value.length;
  let count = 0;
  for (const name in headers) {
    count++;
    bytes += textBytes(name) + textBytes(headers[name] as string);
  }
  return bytes + varintBytes(count);
}

function writeBody(
  batch: Buffer,
  start: number,
  { key, value, headers }: BrokerRecord,
  offsetDelta: number,
  timeDelta: number,
): number {
  batch[start] = 0;
  let at = writeVarint(batch, start + 1, timeDelta);
  at = writeVarint(batch, at, offsetDelta);
  at = key === null ? writeVarint(batch, at, -1) : writeText(batch, at, key);
  at = writeVarint(batch, at, value.length);
  batch.set(value, at);
  at += value.length;
  at = writeVarint(batch, at, countOf(headers));
  for (const name in headers) {
    at = writeText(batch, at, name);
    at = writeText(batch, at, headers[name] as string);
  }
  return at;
}

function countOf(headers: BrokerRecord['headers']): number {
  let count = 0;
  for (const _ in headers) count++;
  return count;
}

/** Bytes of a text with its length before it. */
function textBytes(text: string): number {
  const bytes = byteLength(text);
  return varintBytes(bytes) + bytes;
}

/** Keys and headers are short and mostly ASCII: looking is quicker than asking Node. */
function byteLength(text: string): number {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}

function writeText(batch: Buffer, start: number, text: string): number {
  const bytes = byteLength(text);
  const at = writeVarint(batch, start, bytes);
  if (bytes === text.length) for (let i = 0; i < bytes; i++) batch[at + i] = text.charCodeAt(i);
  else batch.write(text, at);
  return at + bytes;
}

/** Zigzag, then seven bits a byte; without bit operations, for times can be further apart than 32 bits. */
function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = zigzag(value); rest > 0x7f; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

function writeVarint(batch: Buffer, start: number, value: number): number {
  let at = start;
  let rest = zigzag(value);
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) batch[at++] = (rest % 128) | 0x80;
  batch[at++] = rest;
  return at;
}

function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

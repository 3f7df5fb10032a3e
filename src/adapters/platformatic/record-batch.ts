import type { BrokerRecord } from '../../publish/broker.ts';
import { sizeOfVarint, writeVarint } from './varint.ts';

/**
 * A batch of records in Kafka's format (version 2), as one produce request holds it for one partition. Written here and
 * not by the package: that one writes wrong timestamps when two of a batch are more than 24 days apart, as those of a
 * backup may be, and takes three times as long.
 */
export interface BatchTools {
  readonly crc32c: (data: Buffer) => number;
  readonly compression?: Compression | undefined;
}

export interface Compression {
  /** Lowest three bits of the attributes of a batch. */
  readonly bitmask: number;
  readonly compress: (data: Buffer) => Buffer | Promise<Buffer>;
}

const headLength = 61;
/** What the length of a batch counts begins here, and what its checksum covers. */
const [lengthFrom, checksumFrom] = [12, 21];
const magic = 2;
const none = -1;

export async function compressedBatch(
  records: readonly BrokerRecord[],
  tools: BatchTools,
  { bitmask, compress }: Compression,
): Promise<Buffer> {
  const plain = writeRecords(records, 0);
  const packed = await compress(plain);
  const batch = Buffer.allocUnsafe(headLength + packed.length);
  batch.set(packed, headLength);
  return writeHead(batch, records, bitmask, tools);
}

export function plainBatch(records: readonly BrokerRecord[], tools: BatchTools): Buffer {
  return writeHead(writeRecords(records, headLength), records, 0, tools);
}

function writeHead(
  batch: Buffer,
  records: readonly BrokerRecord[],
  attributes: number,
  { crc32c }: BatchTools,
): Buffer {
  let latest = records[0]?.timestamp ?? 0;
  for (const { timestamp } of records) if (timestamp > latest) latest = timestamp;
  batch.writeBigInt64BE(0n, 0); // Offset of the first: the broker gives it.
  batch.writeInt32BE(batch.length - lengthFrom, 8);
  batch.writeInt32BE(none, 12); // Epoch of the leader: the broker's as well.
  batch.writeInt8(magic, 16);
  batch.writeInt16BE(attributes, checksumFrom);
  batch.writeInt32BE(records.length - 1, 23);
  batch.writeBigInt64BE(BigInt(records[0]?.timestamp ?? 0), 27);
  batch.writeBigInt64BE(BigInt(latest), 35);
  // No producer id, epoch and sequence: the producer is not idempotent.
  batch.fill(0xff, 43, 57);
  batch.writeInt32BE(records.length, 57);
  batch.writeUInt32BE(crc32c(batch.subarray(checksumFrom)) >>> 0, 17);
  return batch;
}

/** The records one after another, with `before` bytes left free in front of them. */
function writeRecords(records: readonly BrokerRecord[], before: number): Buffer {
  const first = records[0]?.timestamp ?? 0;
  const lengths = new Array<number>(records.length);
  let total = before;
  for (const [index, record] of records.entries()) {
    const length = lengthOf(record, index, first);
    lengths[index] = length;
    total += sizeOfVarint(length) + length;
  }
  const bytes = Buffer.allocUnsafe(total);
  let at = before;
  for (const [index, record] of records.entries()) {
    at = writeVarint(bytes, lengths[index] as number, at);
    bytes[at++] = 0; // Attributes of a record: none are defined.
    at = writeVarint(bytes, record.timestamp - first, at);
    at = writeVarint(bytes, index, at);
    at = record.key === null ? writeVarint(bytes, none, at) : writeText(bytes, record.key, at);
    at = writeVarint(bytes, record.value.length, at);
    bytes.set(record.value, at);
    at += record.value.length;
    at = writeHeaders(bytes, record.headers, at);
  }
  return bytes;
}

function lengthOf({ key, value, headers, timestamp }: BrokerRecord, index: number, first: number): number {
  let length = 1 + sizeOfVarint(timestamp - first) + sizeOfVarint(index);
  length += key === null ? sizeOfVarint(none) : sizeOfText(key);
  length += sizeOfVarint(value.length) + value.length;
  let count = 0;
  for (const name in headers) {
    length += sizeOfText(name) + sizeOfText(headers[name] as string);
    count++;
  }
  return length + sizeOfVarint(count);
}

function writeHeaders(bytes: Buffer, headers: BrokerRecord['headers'], start: number): number {
  let count = 0;
  for (const _ in headers) count++;
  let at = writeVarint(bytes, count, start);
  for (const name in headers) at = writeText(bytes, headers[name] as string, writeText(bytes, name, at));
  return at;
}

function sizeOfText(text: string): number {
  const length = Buffer.byteLength(text);
  return sizeOfVarint(length) + length;
}

function writeText(bytes: Buffer, text: string, start: number): number {
  const length = Buffer.byteLength(text);
  const at = writeVarint(bytes, length, start);
  return at + bytes.write(text, at);
}

import type { BrokerRecord } from '../../publish/broker.ts';
import { makeRecords } from '../../publish/fault.ts';

// Kafka's record batch, version 2: https://kafka.apache.org/documentation/#recordbatch. svc writes it itself, in one pass over
// one buffer. Both clients take several times as long.

export interface Compression {
  /** Number of the codec: the lowest bits of the attributes of a batch. */
  readonly bitmask: number;
  readonly compress: (data: Buffer) => Buffer | Promise<Buffer>;
}

const headBytes = 61;
const lengthAt = 8;
const magicAt = 16;
const crcAt = 17;
/** The checksum covers everything from here on. */
const attributesAt = 21;
const lastOffsetDeltaAt = 23;
const firstTimestampAt = 27;
const maxTimestampAt = 35;
const producerIdAt = 43;
const producerEpochAt = 51;
const sequenceAt = 53;
const recordCountAt = 57;

/** The position of a batch in the writes of one producer to one partition. Kafka stores it once, however often it is sent. */
export interface BatchPlace {
  readonly producerId: bigint;
  readonly epoch: number;
  /** Of its first record. */
  readonly sequence: number;
}

/** A producer without an id, as kafkajs writes it. */
const noPlace: BatchPlace = { producerId: -1n, epoch: 0, sequence: 0 };

/** Bytes written in one turn of the event loop, about half a millisecond. */
const turnBytes = 512 * 1024;

/** Work that yields, to continue in a later turn of the event loop. */
type InTurns<T> = Generator<undefined, T>;

/** One batch; a large one takes several turns. Defaults: svc's own checksum, and a producer without an id. */
export function encodeBatch(
  records: readonly BrokerRecord[],
  checksum: Checksum = crc32c,
  place: BatchPlace = noPlace,
): Promise<Buffer> {
  return inTurns(wholeBatch(records, checksum, place));
}

export async function encodeCompressedBatch(
  records: readonly BrokerRecord[],
  { bitmask, compress }: Compression,
  checksum: Checksum = crc32c,
  place: BatchPlace = noPlace,
): Promise<Buffer> {
  const times = timesOf(records);
  const packed = await compress(await inTurns(writeRecords(records, times.firstMs, 0)));
  const batch = Buffer.allocUnsafeSlow(headBytes + packed.length);
  batch.set(packed, headBytes);
  return inTurns(writeHead(batch, { count: records.length, times, attributes: bitmask, place }, checksum));
}

async function inTurns<T>(work: InTurns<T>): Promise<T> {
  for (;;) {
    const { done, value } = makeRecords(() => work.next());
    if (done) return value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function* wholeBatch(
  records: readonly BrokerRecord[],
  checksum: Checksum,
  place: BatchPlace,
): InTurns<Buffer> {
  const times = timesOf(records);
  const bytes = yield* writeRecords(records, times.firstMs, headBytes);
  return yield* writeHead(bytes, { count: records.length, times, attributes: 0, place }, checksum);
}

interface Times {
  readonly firstMs: number;
  readonly lastMs: number;
}

function timesOf(records: readonly BrokerRecord[]): Times {
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const { timestamp } of records) {
    if (timestamp < firstMs) firstMs = timestamp;
    if (timestamp > lastMs) lastMs = timestamp;
  }
  return { firstMs, lastMs };
}

interface Head {
  readonly count: number;
  readonly times: Times;
  readonly attributes: number;
  readonly place: BatchPlace;
}

function* writeHead(
  batch: Buffer,
  { count, times: { firstMs, lastMs }, attributes, place }: Head,
  checksum: Checksum,
): InTurns<Buffer> {
  batch.fill(0, 0, headBytes);
  batch.writeInt32BE(batch.length - lengthAt - 4, lengthAt);
  batch.writeInt8(2, magicAt);
  batch.writeInt16BE(attributes, attributesAt);
  batch.writeInt32BE(count - 1, lastOffsetDeltaAt);
  batch.writeBigInt64BE(BigInt(firstMs), firstTimestampAt);
  batch.writeBigInt64BE(BigInt(lastMs), maxTimestampAt);
  batch.writeBigInt64BE(place.producerId, producerIdAt);
  batch.writeInt16BE(place.epoch, producerEpochAt);
  batch.writeInt32BE(place.sequence, sequenceAt);
  batch.writeInt32BE(count, recordCountAt);
  let sum = 0;
  for (let at = attributesAt; at < batch.length; at += turnBytes) {
    if (at > attributesAt) yield;
    sum = checksum(batch, at, Math.min(at + turnBytes, batch.length), sum);
  }
  batch.writeInt32BE(sum, crcAt);
  return batch;
}

/** The records one after another, after `before` free bytes. In one pass, because counting costs as much as writing. */
function* writeRecords(records: readonly BrokerRecord[], firstMs: number, before: number): InTurns<Buffer> {
  let most = before;
  for (const record of records) most += mostBytes(record);
  // Outside the pool of small buffers, so aligned: the checksum is faster.
  const bytes = Buffer.allocUnsafeSlow(most);
  let at = before;
  let turnEnd = at + turnBytes;
  let index = 0;
  for (const record of records) {
    if (at >= turnEnd) {
      yield;
      turnEnd = at + turnBytes;
    }
    at = writeRecord(bytes, at, record, index++, firstMs);
  }
  return bytes.subarray(0, at);
}

const mostLengthBytes = 5;
/** Attributes, time, offset, number of headers, and the lengths of record, key and value. */
const mostOtherBytes = 1 + 8 + 5 * mostLengthBytes;

/** Upper bound for a record: a UTF-16 unit takes at most three bytes. */
function mostBytes(record: BrokerRecord): number {
  const { key, headers } = record;
  let bytes = mostOtherBytes + lengthOfValue(record);
  if (key !== null) bytes += 3 * key.length;
  for (const name of Object.keys(headers))
    bytes += 2 * mostLengthBytes + 3 * (name.length + (headers[name] as string).length);
  return bytes;
}

/** Writes a record after its length, whose space is that of the value's length: nearly always the same size. */
function writeRecord(
  bytes: Buffer,
  start: number,
  record: BrokerRecord,
  offsetDelta: number,
  firstMs: number,
): number {
  const body = start + sizeOfVarint(lengthOfValue(record));
  const end = writeBody(bytes, body, record, offsetDelta, record.timestamp - firstMs);
  const moved = start + sizeOfVarint(end - body);
  if (moved !== body) bytes.copyWithin(moved, body, end);
  writeVarint(bytes, end - body, start);
  return end + moved - body;
}

function writeBody(
  bytes: Buffer,
  start: number,
  record: BrokerRecord,
  offsetDelta: number,
  timeDelta: number,
): number {
  const { key, headers } = record;
  const valueBytes = lengthOfValue(record);
  bytes[start] = 0; // Attributes of a record: none are defined.
  let at = writeVarint(bytes, timeDelta, start + 1);
  at = writeVarint(bytes, offsetDelta, at);
  at = key === null ? writeVarint(bytes, -1, at) : writeText(bytes, key, at);
  at = writeVarint(bytes, valueBytes, at);
  if (record.writeValue === undefined) bytes.set(record.value, at);
  else record.writeValue(bytes, at);
  const names = Object.keys(headers);
  at = writeVarint(bytes, names.length, at + valueBytes);
  for (const name of names) at = writeText(bytes, headers[name] as string, writeText(bytes, name, at));
  return at;
}

function lengthOfValue(record: BrokerRecord): number {
  return record.valueBytes ?? record.value.length;
}

/** Writes a text after its length, and returns the next position. */
function writeText(bytes: Buffer, text: string, start: number): number {
  // An array has a length as well.
  if (typeof text !== 'string') throw new TypeError('no text');
  const { length } = text;
  const at = writeVarint(bytes, length, start);
  // Keys and headers are short and mostly ASCII: this loop is faster than a call into Node.
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 0x7f) return writeUtf8(bytes, text, start);
    bytes[at + i] = unit;
  }
  return at + length;
}

function writeUtf8(bytes: Buffer, text: string, start: number): number {
  const at = writeVarint(bytes, Buffer.byteLength(text), start);
  return at + bytes.write(text, at);
}

/** Below this, the doubled number fits the 32-bit operations of JavaScript. */
const fewBits = 2 ** 30;

/** Bytes of a whole number in Kafka's form: zigzag, seven bits a byte. */
function sizeOfVarint(value: number): number {
  let rest = zigzag(value);
  let size = 1;
  while (rest >= 0x80) {
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
    size++;
  }
  return size;
}

/** Writes a whole number, up to 2 ** 52 in size, and returns the next position. */
function writeVarint(bytes: Uint8Array, value: number, start: number): number {
  let rest = zigzag(value);
  let at = start;
  while (rest >= 0x80) {
    bytes[at++] = (rest % 0x80) | 0x80;
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
  }
  bytes[at++] = rest;
  return at;
}

const zigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);

/** Reversed polynomial of CRC-32C (Castagnoli), which Kafka's record batches carry. */
const polynomial = 0x82f63b78;

/** `tables[n * 256 + byte]`: the checksum of that byte followed by `n` zero bytes, so that one step takes eight bytes. */
const tables = makeTables();

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const noWords = new Int32Array(0);

/** CRC-32C of `bytes` from `start` to `end`, as a signed 32-bit number. `before`: the checksum of the preceding bytes. */
export function crc32c(bytes: Uint8Array, start: number, end: number, before = 0): number {
  let crc = ~before;
  let at = start;
  for (; at < end && ((bytes.byteOffset + at) & 3) !== 0; at++) crc = oneByte(crc, bytes[at] as number);
  const pairs = isLittleEndian ? (end - at) >> 3 : 0;
  const words = pairs > 0 ? new Int32Array(bytes.buffer, bytes.byteOffset + at, pairs * 2) : noWords;
  for (let word = 0; word < words.length; word += 2) {
    const first = (words[word] as number) ^ crc;
    const second = words[word + 1] as number;
    crc =
      (tables[0x700 + (first & 0xff)] as number) ^
      (tables[0x600 + ((first >>> 8) & 0xff)] as number) ^
      (tables[0x500 + ((first >>> 16) & 0xff)] as number) ^
      (tables[0x400 + (first >>> 24)] as number) ^
      (tables[0x300 + (second & 0xff)] as number) ^
      (tables[0x200 + ((second >>> 8) & 0xff)] as number) ^
      (tables[0x100 + ((second >>> 16) & 0xff)] as number) ^
      (tables[second >>> 24] as number);
  }
  for (at += words.byteLength; at < end; at++) crc = oneByte(crc, bytes[at] as number);
  return ~crc;
}

function oneByte(crc: number, byte: number): number {
  return (tables[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
}

function makeTables(): Int32Array {
  const made = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    made[byte] = crc;
  }
  for (let at = 256; at < made.length; at++) {
    const before = made[at - 256] as number;
    made[at] = (made[before & 0xff] as number) ^ (before >>> 8);
  }
  return made;
}

export type Checksum = typeof crc32c;

interface NativeModule {
  readonly crc32c: (bytes: Uint8Array, before: number) => number;
}

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = '@node-rs/crc32';

/** The package's checksum takes an eighth of the time. Without a binary for this machine: svc's own. Never rejects. */
export async function loadChecksum(
  load: () => Promise<NativeModule> = () => import(packageName),
): Promise<Checksum> {
  try {
    const native = (await load()).crc32c;
    const checksum: Checksum = (bytes, start, end, before = 0) =>
      native(bytes.subarray(start, end), before >>> 0) | 0;
    return isRight(checksum) ? checksum : crc32c;
  } catch {
    return crc32c;
  }
}

/** A broker refuses every batch with a wrong checksum. */
function isRight(checksum: Checksum): boolean {
  const sample = Uint8Array.from({ length: 300 }, (_, at) => at * 167);
  const inParts = checksum(sample, 200, sample.length, checksum(sample, 1, 200));
  return inParts === crc32c(sample, 1, sample.length);
}

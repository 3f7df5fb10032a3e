import { promisify } from 'node:util';
import { gzip, unzip, type ZlibOptions, type ZstdOptions, zstdCompress, zstdDecompress } from 'node:zlib';
import { nextTurn } from '../../ground/builtins.ts';
import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { KafkaCompression } from './kafka-client-options.ts';
import { loadPlatformatic } from './platformatic-module.ts';

export interface Compression {
  /** Number of the codec: the lowest bits of the attributes of a batch. */
  readonly bitmask: number;
  readonly compress: (data: Buffer) => Buffer | Promise<Buffer>;
}

type Codec = Exclude<KafkaCompression, 'none'>;
/** The compression bits in the attributes of a batch. */
const codecNumbers = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const satisfies Record<
  KafkaCompression,
  number
>;

/** Node compresses these in its thread pool. */
const compressed: Readonly<Record<'gzip' | 'zstd', (data: Buffer) => Promise<Buffer>>> = {
  gzip: promisify<Buffer, Buffer>(gzip),
  zstd: promisify<Buffer, Buffer>(zstdCompress),
};

/** The codec for batches that svc encodes. snappy and lz4 come from the package, and run on this thread. */
export async function compressionOf(name: KafkaCompression = 'none'): Promise<Compression | undefined> {
  if (name === 'none') return undefined;
  const bitmask = codecNumbers[name];
  if (name === 'gzip' || name === 'zstd') return { bitmask, compress: compressed[name] };
  const { compressionsAlgorithms } = await loadPlatformatic<Vendor>(`compression ${name}`);
  return { bitmask, compress: compressionsAlgorithms[name].compressSync };
}

interface Vendor {
  readonly compressionsAlgorithms: Readonly<
    Record<Codec, { readonly compressSync: (data: Buffer) => Buffer }>
  >;
}

/** A batch of records may expand to this many bytes, or to 16 times its own size if that is more. */
const maxExpandedBytes = 64 * 1024 * 1024;

type Inflate<Options> = (data: Buffer, options: Options) => Promise<Buffer>;
const unzipped = promisify<Buffer, ZlibOptions, Buffer>(unzip) as Inflate<ZlibOptions>;
const unzstd = promisify<Buffer, ZstdOptions, Buffer>(zstdDecompress) as Inflate<ZstdOptions>;

/**
 * The records of a compressed batch. Node's thread pool expands gzip and zstd. This thread expands snappy and lz4, a few
 * milliseconds in one turn of the event loop. Any producer of the topic can make 400 KB that expand to 400 MB: it rejects with
 * `SVC_ADAPTERS_BATCH_TOO_LARGE` before it takes the memory.
 *
 * @param takenBytes by other batches of the same answer: together they may expand to 64 MiB
 */
export async function expand(codec: Codec, data: Buffer, takenBytes?: number): Promise<Buffer> {
  const limitBytes =
    takenBytes === undefined
      ? Math.max(maxExpandedBytes, 16 * data.length)
      : Math.max(0, maxExpandedBytes - takenBytes);
  try {
    if (codec === 'gzip') return await unzipped(data, { maxOutputLength: limitBytes });
    if (codec === 'zstd') return await unzstd(data, { maxOutputLength: limitBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(limitBytes);
    throw error;
  }
  return await inTurns(codec === 'lz4' ? expandLz4(data, limitBytes) : expandSnappy(data, limitBytes));
}

function tooLarge(limitBytes: number): SvcError {
  const limit = `${Math.floor(limitBytes / (1024 * 1024))} MiB`;
  return new SvcError(
    'SVC_ADAPTERS_BATCH_TOO_LARGE',
    `a compressed batch of records expands to more than ${limit}: it was not read`,
  );
}

// svc expands snappy and lz4 itself, because no package can pause in the middle of its work. Each function first counts the bytes
// that it will make. https://github.com/google/snappy/blob/main/format_description.txt
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md and lz4_Block_format.md

/** Work that yields after `sliceBytes` at the latest, so that the event loop can run. */
type InTurns<T> = Generator<undefined, T>;

const sliceBytes = 128 * 1024;
const longestTurnMs = 4;

async function inTurns<T>(work: InTurns<T>): Promise<T> {
  for (let since = clock.monotonic(); ; ) {
    const { done, value } = work.next();
    if (done) return value;
    if (clock.monotonic() - since < longestTurnMs) continue;
    await nextTurn();
    since = clock.monotonic();
  }
}

/** The progress of an expansion: the next byte to read, and the number of bytes written. */
interface Progress {
  at: number;
  filled: number;
}

/** One of the blocks in `data`. Each is compressed by itself. */
interface Block {
  readonly from: number;
  readonly end: number;
  readonly isPlain?: boolean;
  /** Whether this is the first block that its copies may refer to. */
  readonly isFirst: boolean;
}

/** The number of blocks that are counted between two yields. */
const blocksInSlice = 4096;

const damaged = (codec: Codec): Error =>
  new Error(`a batch of records that is compressed with ${codec} is damaged`);

/** Repeats `length` bytes from `offset` bytes back. Source and target may overlap. */
function repeat(out: Buffer, at: number, offset: number, length: number): void {
  const from = at - offset;
  if (length <= 64) {
    for (let index = 0; index < length; index++) out[at + index] = out[from + index] as number;
    return;
  }
  for (let done = 0; done < length; ) {
    const next = Math.min(offset + done, length - done);
    out.copyWithin(at + done, from, from + next);
    done += next;
  }
}

function copy(data: Buffer, at: number, out: Buffer, filled: number, length: number): void {
  if (length <= 64)
    for (let index = 0; index < length; index++) out[filled + index] = data[at + index] as number;
  else data.copy(out, filled, at, at + length);
}

const xerialMagic = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);

/** One block, or the blocks of Java's framing. */
function* snappyBlocks(data: Buffer): Generator<Block> {
  if (!data.subarray(0, xerialMagic.length).equals(xerialMagic))
    return yield { from: 0, end: data.length, isFirst: true };
  for (let at = 16; at < data.length; ) {
    if (at + 4 > data.length) throw damaged('snappy');
    const from = at + 4;
    at = from + data.readUInt32BE(at);
    if (at > data.length) throw damaged('snappy');
    yield { from, end: at, isFirst: true };
  }
}

function snappySize(data: Buffer, { from, end }: Block): Progress {
  let size = 0;
  for (let index = 0; index < 5 && from + index < end; index++) {
    const byte = data[from + index] as number;
    size += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { at: from + index + 1, filled: size };
  }
  throw damaged('snappy');
}

function* expandSnappy(data: Buffer, limitBytes: number): InTurns<Buffer> {
  let total = 0;
  let seen = 0;
  for (const block of snappyBlocks(data)) {
    total += snappySize(data, block).filled;
    if (total > limitBytes) throw tooLarge(limitBytes);
    if (++seen % blocksInSlice === 0) yield;
  }
  const out = Buffer.allocUnsafeSlow(total);
  const now: Progress = { at: 0, filled: 0 };
  let stoppedAt = 0;
  for (const block of snappyBlocks(data)) {
    const { at, filled: size } = snappySize(data, block);
    now.at = at;
    const first = now.filled;
    const own = out.subarray(0, first + size);
    while (now.at < block.end) {
      expandSnappySlice(data, block.end, own, now, first);
      if (now.filled - stoppedAt < sliceBytes && ++seen % blocksInSlice !== 0) continue;
      stoppedAt = now.filled;
      yield;
    }
    if (now.filled !== first + size) throw damaged('snappy');
  }
  return out;
}

/** Expands literals and copies until about `sliceBytes` are made. */
function expandSnappySlice(data: Buffer, end: number, out: Buffer, now: Progress, first: number): void {
  let { at, filled } = now;
  const [untilRead, untilFilled] = [Math.min(end, at + sliceBytes), filled + sliceBytes];
  while (at < untilRead && filled < untilFilled) {
    const tag = data[at++] as number;
    const kind = tag & 3;
    let length = (tag >> 2) + 1;
    if (kind === 0) {
      const sizeBytes = Math.max(0, length - 60);
      if (at + sizeBytes > end) throw damaged('snappy');
      if (sizeBytes > 0) length = data.readUIntLE(at, sizeBytes) + 1;
      at += sizeBytes;
      if (length > end - at || length > out.length - filled) throw damaged('snappy');
      copy(data, at, out, filled, length);
      at += length;
    } else {
      const offsetBytes = kind === 3 ? 4 : kind;
      if (at + offsetBytes > end) throw damaged('snappy');
      let offset = data[at] as number;
      if (kind === 1) {
        offset += (tag >> 5) << 8;
        length = ((tag >> 2) & 7) + 4;
      } else if (kind === 2) offset += (data[at + 1] as number) << 8;
      else offset = data.readUInt32LE(at);
      at += offsetBytes;
      if (offset === 0 || offset > filled - first || length > out.length - filled) throw damaged('snappy');
      repeat(out, filled, offset, length);
    }
    filled += length;
  }
  now.at = at;
  now.filled = filled;
}

const lz4Magic = 0x184d2204;
/** The maximum size of a block, from its code (4 to 7) in the frame. */
const lz4BlockBytes = (code: number): number => 2 ** (8 + 2 * code);

/** The blocks of all frames. Their checksums are ignored, as in Kafka's own clients, because the batch has its own. */
function* lz4Blocks(data: Buffer): Generator<Block> {
  for (let at = 0; at < data.length; ) {
    if (at + 7 > data.length || data.readUInt32LE(at) !== lz4Magic) throw damaged('lz4');
    const flags = data[at + 4] as number;
    const largest = lz4BlockBytes(((data[at + 5] as number) >> 4) & 7);
    const [hasSums, hasSize, hasSum, hasDictionary] = [
      flags & 0x10,
      flags & 0x08,
      flags & 0x04,
      flags & 0x01,
    ];
    at += 7 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0);
    for (let isFirst = true; ; isFirst = false) {
      if (at + 4 > data.length) throw damaged('lz4');
      const head = data.readUInt32LE(at);
      at += 4;
      if (head === 0) break;
      const [from, end] = [at, at + (head & 0x7fffffff)];
      if (end > data.length || end - from > largest) throw damaged('lz4');
      yield { from, end, isPlain: head > 0x7fffffff, isFirst };
      at = end + (hasSums ? 4 : 0);
    }
    at += hasSum ? 4 : 0;
  }
}

function* expandLz4(data: Buffer, limitBytes: number): InTurns<Buffer> {
  let total = 0;
  let read = 0;
  let seen = 0;
  for (const block of lz4Blocks(data)) {
    total += block.isPlain ? block.end - block.from : countLz4(data, block);
    if (total > limitBytes) throw tooLarge(limitBytes);
    read += block.end - block.from;
    if (++seen % blocksInSlice !== 0 && read < sliceBytes) continue;
    read = 0;
    yield;
  }
  const out = Buffer.allocUnsafeSlow(total);
  const now: Progress = { at: 0, filled: 0 };
  let first = 0;
  let stoppedAt = 0;
  for (const block of lz4Blocks(data)) {
    now.at = block.from;
    if (block.isFirst) first = now.filled;
    do {
      if (block.isPlain) copyPlain(data, block, out, now);
      else expandLz4Slice(data, block.end, out, now, first);
      if (now.filled - stoppedAt < sliceBytes && ++seen % blocksInSlice !== 0) continue;
      stoppedAt = now.filled;
      yield;
    } while (now.at < block.end);
  }
  if (now.filled !== total) throw damaged('lz4');
  return out;
}

function copyPlain(data: Buffer, { from, end }: Block, out: Buffer, now: Progress): void {
  copy(data, from, out, now.filled, end - from);
  now.filled += end - from;
  now.at = end;
}

/** A token holds the lengths of literals and copy. A length of 15 continues in further bytes, up to the first below 255. */
function countLz4(data: Buffer, { from, end }: Block): number {
  let sum = 0;
  for (let at = from; at < end; ) {
    const token = data[at++] as number;
    let length = token >> 4;
    if (length === 15)
      for (let byte = 255; byte === 255 && at < end; length += byte) byte = data[at++] as number;
    sum += length;
    at += length;
    if (at >= end) break;
    at += 2;
    length = 4 + (token & 0x0f);
    if (length === 19)
      for (let byte = 255; byte === 255 && at < end; length += byte) byte = data[at++] as number;
    sum += length;
  }
  return sum;
}

/** Expands literals and copies until about `sliceBytes` are made. The last literals of a block have no copy after them. */
function expandLz4Slice(data: Buffer, end: number, out: Buffer, now: Progress, first: number): void {
  let { at, filled } = now;
  const untilFilled = filled + sliceBytes;
  while (at < end && filled < untilFilled) {
    const token = data[at++] as number;
    let length = token >> 4;
    if (length === 15)
      for (let byte = 255; byte === 255 && at < end; length += byte) byte = data[at++] as number;
    if (length > end - at || length > out.length - filled) throw damaged('lz4');
    copy(data, at, out, filled, length);
    at += length;
    filled += length;
    if (at === end) break;
    if (at + 2 > end) throw damaged('lz4');
    const offset = (data[at] as number) + ((data[at + 1] as number) << 8);
    at += 2;
    length = 4 + (token & 0x0f);
    if (length === 19)
      for (let byte = 255; byte === 255 && at < end; length += byte) byte = data[at++] as number;
    if (offset === 0 || offset > filled - first || length > out.length - filled) throw damaged('lz4');
    repeat(out, filled, offset, length);
    filled += length;
  }
  now.at = at;
  now.filled = filled;
}

import { promisify } from 'node:util';
import { gzip, unzip, type ZlibOptions, type ZstdOptions, zstdCompress, zstdDecompress } from 'node:zlib';
import { SvcError } from '../../ground/errors.ts';
import type { KafkaCompression } from './kafka-client-options.ts';
import { loadPlatformatic, type VendorCompression } from './platformatic-module.ts';
import { type Compression, codecNumbers } from './record-batch.ts';

type Codec = Exclude<KafkaCompression, 'none'>;

/** What Node itself can do, aside from the thread that runs the application. */
const compressed: Readonly<Record<'gzip' | 'zstd', (data: Buffer) => Promise<Buffer>>> = {
  gzip: promisify<Buffer, Buffer>(gzip),
  zstd: promisify<Buffer, Buffer>(zstdCompress),
};

/** For batches that svc encodes itself. gzip and zstd from Node; snappy and lz4 from the package, which compresses them on this thread. */
export async function compressionOf(name: KafkaCompression = 'none'): Promise<Compression | undefined> {
  if (name === 'none') return undefined;
  const bitmask = codecNumbers[name];
  if (name === 'gzip' || name === 'zstd') return { bitmask, compress: compressed[name] };
  return { bitmask, compress: (await ofPlatformatic(name)).compressSync };
}

async function ofPlatformatic(name: Codec): Promise<VendorCompression> {
  const { compressionsAlgorithms } = await loadPlatformatic(`compression ${name}`);
  return compressionsAlgorithms[name] as VendorCompression;
}

/** A batch of records may expand to this many bytes, or to 16 times its own size where that is more. */
export const mostExpandedBytes = 64 * 1024 * 1024;

export const mayExpandTo = (compressedBytes: number): number =>
  Math.max(mostExpandedBytes, 16 * compressedBytes);

type Inflate<Options> = (data: Buffer, options: Options) => Promise<Buffer>;
const unzipped = promisify<Buffer, ZlibOptions, Buffer>(unzip) as Inflate<ZlibOptions>;
const unzstd = promisify<Buffer, ZstdOptions, Buffer>(zstdDecompress) as Inflate<ZstdOptions>;

/**
 * The bytes of a compressed batch. Rejects with `SVC_ADAPTERS_BATCH_TOO_LARGE`, before it takes more memory, where it expands to
 * more than `limitBytes`: whoever may write to a topic can make 400 KB that expand to 400 MB. gzip and zstd expand aside from the
 * thread that runs the application; of snappy and lz4 the size is counted first.
 */
export async function expand(
  codec: Codec,
  data: Buffer,
  limitBytes: number = mayExpandTo(data.length),
): Promise<Buffer> {
  try {
    if (codec === 'gzip') return await unzipped(data, { maxOutputLength: limitBytes });
    if (codec === 'zstd') return await unzstd(data, { maxOutputLength: limitBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(limitBytes);
    throw error;
  }
  const expandedBytes = codec === 'lz4' ? expandedLz4Bytes(data) : expandedSnappyBytes(data);
  if (expandedBytes > limitBytes) throw tooLarge(limitBytes);
  return (await ofPlatformatic(codec)).decompressSync(data);
}

function tooLarge(limitBytes: number): SvcError {
  const limit = `${Math.floor(limitBytes / (1024 * 1024))} MiB`;
  return new SvcError(
    'SVC_ADAPTERS_BATCH_TOO_LARGE',
    `a compressed batch of records expands to more than ${limit}: it was not read`,
  );
}

// How many bytes snappy and lz4 expand to, counted without expanding them. What is cut off or wrong counts as far as it goes:
// whoever expands it says so.

const xerialMagic = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);

/** Of one block, which begins with its size, or of the blocks of Java's framing. */
export function expandedSnappyBytes(data: Buffer): number {
  if (!data.subarray(0, xerialMagic.length).equals(xerialMagic)) return snappyBlockBytes(data);
  let sum = 0;
  for (let at = 16; at + 4 <= data.length; ) {
    const length = data.readUInt32BE(at);
    sum += snappyBlockBytes(data.subarray(at + 4));
    at += 4 + length;
  }
  return sum;
}

function snappyBlockBytes(data: Buffer): number {
  let size = 0;
  for (let index = 0; index < 5; index++) {
    const byte = data[index] ?? 0;
    size += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) break;
  }
  return size;
}

const lz4Magic = 0x184d2204;

/** Of all frames that stand one behind the other. */
export function expandedLz4Bytes(data: Buffer): number {
  let sum = 0;
  let at = 0;
  while (at + 7 <= data.length && data.readUInt32LE(at) === lz4Magic) {
    const flags = data[at + 4] as number;
    const hasSize = (flags & 0x08) !== 0;
    const hasBlockSums = (flags & 0x10) !== 0;
    const hasSum = (flags & 0x04) !== 0;
    const hasDictionary = (flags & 0x01) !== 0;
    at += 7 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0);
    for (;;) {
      if (at + 4 > data.length) return sum;
      const head = data.readUInt32LE(at);
      at += 4;
      if (head === 0) break;
      const length = head & 0x7fffffff;
      const isPlain = head > 0x7fffffff;
      sum += isPlain ? length : lz4BlockBytes(data, at, Math.min(at + length, data.length));
      at += length + (hasBlockSums ? 4 : 0);
    }
    at += hasSum ? 4 : 0;
  }
  return sum;
}

/** A token has the lengths of literals and of what is copied; 15 goes on in bytes, up to the first below 255. */
function lz4BlockBytes(data: Buffer, from: number, end: number): number {
  let sum = 0;
  let at = from;
  const lengthOf = (short: number): number => {
    let length = short;
    if (short === 15) {
      let byte = 255;
      while (byte === 255 && at < end) {
        byte = data[at++] as number;
        length += byte;
      }
    }
    return length;
  };
  while (at < end) {
    const token = data[at++] as number;
    const literals = lengthOf(token >> 4);
    sum += literals;
    at += literals;
    if (at >= end) break;
    at += 2;
    sum += 4 + lengthOf(token & 0x0f);
  }
  return sum;
}

import { promisify } from 'node:util';
import { gzip, unzip, type ZlibOptions, type ZstdOptions, zstdCompress, zstdDecompress } from 'node:zlib';
import { SvcError } from '../../../ground/errors.ts';
import type { KafkaCompression } from '../kafka-client-options.ts';
import { loadPlatformatic, type VendorCompression } from '../platformatic-module.ts';
import { expandedLz4Bytes, expandedSnappyBytes } from './expanded-bytes.ts';
import { codecNumbers } from './protocol-numbers.ts';
import type { Compression } from './record-batch.ts';

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

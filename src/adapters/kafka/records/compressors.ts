import { promisify } from 'node:util';
import { gunzip, gzip, zstdCompress, zstdDecompress } from 'node:zlib';
import type { KafkaCompression } from '../kafka-client-options.ts';
import { loadPlatformatic, type VendorCompression } from '../platformatic-module.ts';
import { codecNumbers } from './protocol-numbers.ts';
import type { Compression } from './record-batch.ts';

interface Compressor {
  readonly compress: (data: Buffer) => Promise<Buffer>;
  readonly decompress: (data: Buffer) => Promise<Buffer>;
}

/** What Node itself can do, aside from the thread that runs the application. */
export const compressors: Readonly<Record<'gzip' | 'zstd', Compressor>> = {
  gzip: { compress: promisify<Buffer, Buffer>(gzip), decompress: promisify<Buffer, Buffer>(gunzip) },
  zstd: {
    compress: promisify<Buffer, Buffer>(zstdCompress),
    decompress: promisify<Buffer, Buffer>(zstdDecompress),
  },
};

/** For batches that svc encodes itself. gzip and zstd from Node; snappy and lz4 from the package, which compresses them on this thread. */
export async function compressionOf(name: KafkaCompression = 'none'): Promise<Compression | undefined> {
  if (name === 'none') return undefined;
  const bitmask = codecNumbers[name];
  if (name === 'gzip' || name === 'zstd') return { bitmask, compress: compressors[name].compress };
  const { compressSync } = (await loadPlatformatic(`compression ${name}`)).compressionsAlgorithms[
    name
  ] as VendorCompression;
  return { bitmask, compress: compressSync };
}

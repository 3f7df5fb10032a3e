import { promisify } from 'node:util';
import { gunzip, gzip, zstdCompress, zstdDecompress } from 'node:zlib';
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

/** For batches that svc encodes itself. */
export function compressionByNode(name: 'gzip' | 'zstd'): Compression {
  return { bitmask: codecNumbers[name], compress: compressors[name].compress };
}

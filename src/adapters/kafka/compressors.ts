import { promisify } from 'node:util';
import { gunzip, gzip, zstdCompress, zstdDecompress } from 'node:zlib';

export interface Compressor {
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

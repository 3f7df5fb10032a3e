import type * as Kafkajs from 'kafkajs';
import { loadPlatformatic, type VendorCompression } from '../../kafka/platformatic-module.ts';

type Vendor = Pick<typeof Kafkajs, 'CompressionCodecs' | 'CompressionTypes'>;

/** As kafkajs asks for it; it compresses an encoder of its own, and decompresses bytes. */
interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(data: Buffer): Promise<Buffer>;
}

/**
 * For readers: kafkajs knows gzip alone. zstd is added from Node, and what only `@platformatic/kafka` writes, snappy and lz4,
 * from that package. What the application itself has added stays.
 */
export async function addCodecs({ CompressionCodecs, CompressionTypes }: Vendor): Promise<void> {
  const { compressors } = await import('../../kafka/records/compressors.ts');
  add(CompressionCodecs, CompressionTypes.ZSTD, {
    compress: ({ buffer }) => compressors.zstd.compress(buffer),
    decompress: compressors.zstd.decompress,
  });
  for (const [type, name] of [
    [CompressionTypes.Snappy, 'snappy'],
    [CompressionTypes.LZ4, 'lz4'],
  ] as const)
    add(CompressionCodecs, type, ofPlatformatic(name));
}

function ofPlatformatic(name: 'snappy' | 'lz4'): Codec {
  const load = async (): Promise<VendorCompression> =>
    (await loadPlatformatic(`compression ${name}`)).compressionsAlgorithms[name] as VendorCompression;
  return {
    compress: async ({ buffer }) => (await load()).compressSync(buffer),
    decompress: async (data) => (await load()).decompressSync(data),
  };
}

function add(codecs: Vendor['CompressionCodecs'], type: number, codec: Codec): void {
  const table = codecs as unknown as Record<number, () => Codec>;
  try {
    table[type]?.();
  } catch {
    // "Not implemented".
    table[type] = () => codec;
  }
}

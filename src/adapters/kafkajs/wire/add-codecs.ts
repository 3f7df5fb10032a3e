import type * as Kafkajs from 'kafkajs';
import type { KafkaCompression } from '../../kafka/kafka-client-options.ts';
import { loadPlatformatic, type VendorCompression } from '../../kafka/platformatic-module.ts';

type Vendor = Pick<typeof Kafkajs, 'CompressionCodecs' | 'CompressionTypes'>;

export interface CodecOptions {
  readonly compression?: KafkaCompression | undefined;
  /** Whether records in any compression are to be read. Default false. */
  readonly readsAll?: boolean | undefined;
}

/** As kafkajs asks for it; it compresses an encoder of its own, and decompresses bytes. */
interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(data: Buffer): Promise<Buffer>;
}

/**
 * kafkajs knows gzip alone. zstd is added from Node, and what only `@platformatic/kafka` writes, snappy and lz4, from that
 * package, for readers. What the application itself has added stays.
 */
export async function addCodecs(vendor: Vendor, { compression, readsAll }: CodecOptions): Promise<void> {
  const { CompressionCodecs, CompressionTypes } = vendor;
  if (compression === 'zstd' || readsAll) {
    const { compressors } = await import('../../kafka/records/compressors.ts');
    add(CompressionCodecs, CompressionTypes.ZSTD, {
      compress: ({ buffer }) => compressors.zstd.compress(buffer),
      decompress: compressors.zstd.decompress,
    });
  }
  if (!readsAll) return;
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

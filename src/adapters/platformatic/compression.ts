import type { KafkaCompression } from '../kafka/kafka-client-options.ts';
import type { PlatformaticModule, VendorCompression } from '../kafka/platformatic-module.ts';
import { codecNumbers } from '../kafka/records/protocol-numbers.ts';
import type { Compression } from '../kafka/records/record-batch.ts';

/** gzip and zstd from Node, which compresses aside; snappy and lz4 from the package, which does not. */
export async function compressionOf(
  vendor: PlatformaticModule,
  name: KafkaCompression = 'none',
): Promise<Compression | undefined> {
  if (name === 'none') return undefined;
  if (name === 'gzip' || name === 'zstd') {
    const { compressionByNode } = await import('../kafka/records/compressors.ts');
    return compressionByNode(name);
  }
  return {
    bitmask: codecNumbers[name],
    compress: (vendor.compressionsAlgorithms[name] as VendorCompression).compressSync,
  };
}

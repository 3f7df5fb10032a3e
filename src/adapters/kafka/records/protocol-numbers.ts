import type { KafkaCompression } from '../../../ground/management.ts';

/** As a produce request says who has to confirm. */
export const ackNumbers = { all: -1, '1': 1, '0': 0 } as const;

/** As the attributes of a batch say how it is compressed. */
export const codecNumbers = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const satisfies Record<
  KafkaCompression,
  number
>;

import { AsyncLocalStorage } from 'node:async_hooks';
import type * as Kafkajs from 'kafkajs';
import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { VendorCompression } from '../kafka/platformatic-module.ts';

type Vendor = Pick<typeof Kafkajs, 'CompressionCodecs' | 'CompressionTypes'>;

/** As kafkajs asks for it; it compresses an encoder of its own, and decompresses bytes. */
interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(data: Buffer): Promise<Buffer>;
}

/** What svc itself reads: the table of codecs is the application's as well. */
const ownReading = shared('kafkajs-reading', () => new AsyncLocalStorage<true>());

/** What `work` starts reads each batch within bounds; in place of the records of one that expands too far come those of `standIn`. */
export function readBounded<T>(work: () => T): T {
  return ownReading.run(true, work);
}

/**
 * For readers: kafkajs knows gzip alone. zstd is added from Node, and what only `@platformatic/kafka` writes, snappy and lz4,
 * from that package. What the application itself has added stays, and what it reads itself is as it was.
 */
export async function addCodecs({ CompressionCodecs, CompressionTypes }: Vendor): Promise<void> {
  const { compressionOf, expand } = await import('../kafka/compressors.ts');
  const table = CompressionCodecs as unknown as Record<number, () => Codec>;
  for (const [type, name] of [
    [CompressionTypes.GZIP, 'gzip'],
    [CompressionTypes.ZSTD, 'zstd'],
    [CompressionTypes.Snappy, 'snappy'],
    [CompressionTypes.LZ4, 'lz4'],
  ] as const) {
    const others = codecIn(table, type);
    if (others !== undefined && bounded.has(others)) continue;
    const codec: Codec = {
      async compress(encoder) {
        if (others !== undefined) return others.compress(encoder);
        const { compress } = (await compressionOf(name)) as VendorCompression;
        return (compress as NonNullable<typeof compress>)(encoder.buffer);
      },
      async decompress(data) {
        if (ownReading.getStore() !== true && others !== undefined) return others.decompress(data);
        try {
          return await expand(name, data);
        } catch (error) {
          if (!(error instanceof SvcError) || error.code !== 'SVC_ADAPTERS_BATCH_TOO_LARGE') throw error;
          return standIn(data, error);
        }
      },
    };
    bounded.add(codec);
    table[type] = () => codec;
  }
}

const bounded = new WeakSet<Codec>();

function codecIn(table: Record<number, () => Codec>, type: number): Codec | undefined {
  try {
    return table[type]?.();
  } catch {
    // "Not implemented".
    return undefined;
  }
}

/** Bytes of a batch before what is compressed in it, and where it has what is used here. */
const batchHead = { bytes: 61, magicAt: 16, lastDeltaAt: 23, countAt: 57 } as const;
const mostRecords = 100_000;

/**
 * One record for each that the batch claims to have, with the reason as its value: it is no event, so it is listed as
 * unreadable at its offset, and the reading goes on behind the batch. kafkajs leaves the head of the batch before `data`.
 */
function standIn(data: Buffer, reason: SvcError): Buffer {
  const head = Buffer.from(data.buffer, Math.max(0, data.byteOffset - batchHead.bytes), batchHead.bytes);
  const isBatch = data.byteOffset >= batchHead.bytes && head[batchHead.magicAt] === 2;
  const count = isBatch ? head.readInt32BE(batchHead.countAt) : 0;
  if (count < 1 || count > mostRecords) throw reason;
  const last = head.readInt32BE(batchHead.lastDeltaAt);
  const value = Buffer.from(`svc: ${reason.message}`);
  return Buffer.concat(
    Array.from({ length: count }, (_, index) => {
      const delta = varint(index === count - 1 ? last : index);
      // No attributes, the time of the batch, no key, no headers.
      const body = [Buffer.from([0, 0]), delta, varint(-1), varint(value.length), value, Buffer.from([0])];
      const record = Buffer.concat(body);
      return Buffer.concat([varint(record.length), record]);
    }),
  );
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value >= 0 ? value * 2 : -value * 2 - 1;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

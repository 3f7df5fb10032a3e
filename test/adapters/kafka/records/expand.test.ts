import assert from 'node:assert/strict';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { compressionsAlgorithms } from '@platformatic/kafka';
import kafkajs from 'kafkajs';
// @ts-expect-error kafkajs has no types for its inner modules.
import Decoder from 'kafkajs/src/protocol/decoder.js';
// @ts-expect-error kafkajs has no types for its inner modules.
import decodeBatch from 'kafkajs/src/protocol/recordBatch/v0/decoder.js';
import { expand, mayExpandTo, mostExpandedBytes } from '../../../../src/adapters/kafka/compressors.ts';
import { codecNumbers, encodeCompressedBatch } from '../../../../src/adapters/kafka/record-batch.ts';
import { addCodecs, readBounded } from '../../../../src/adapters/kafkajs/kafkajs-client.ts';

const compress = {
  gzip: gzipSync,
  zstd: zstdCompressSync,
  snappy: compressionsAlgorithms.snappy.compressSync,
  lz4: compressionsAlgorithms.lz4.compressSync,
} as Readonly<Record<'gzip' | 'zstd' | 'snappy' | 'lz4', (data: Buffer) => Buffer>>;
const codecs = Object.keys(compress) as (keyof typeof compress)[];
const tooLarge = { code: 'SVC_ADAPTERS_BATCH_TOO_LARGE' };

describe('a compressed batch of records', function () {
  this.timeout(30_000);

  for (const codec of codecs) {
    it(`${codec}: expands to as many bytes as it may, and not to one more`, async () => {
      for (const bytes of [1, 1000, 70_000, 5_000_000]) {
        const data = Buffer.from('svc '.repeat(bytes / 4 + 1)).subarray(0, bytes);
        const packed = compress[codec](data);
        assert.ok((await expand(codec, packed, bytes)).equals(data));
        if (bytes > 1) await assert.rejects(expand(codec, packed, bytes - 1), tooLarge);
      }
    });

    it(`${codec}: random bytes, cut anywhere, end in bytes or an error`, async () => {
      const packed = compress[codec](
        Buffer.from(Array.from({ length: 3000 }, (_, index) => (index * index) % 251)),
      );
      for (let at = 0; at < packed.length; at += 97)
        await expand(codec, packed.subarray(0, at), 10_000).then(
          (bytes) => assert.ok(bytes.length <= 10_000),
          () => {},
        );
    });

    it(`${codec}: one that expands to 400 MB takes no such memory, and its records are known by the reason`, async () => {
      const kafka = kafkajs as unknown as Parameters<typeof addCodecs>[0];
      await addCodecs(kafka);
      const bomb = compress[codec](Buffer.alloc(400 * 1024 * 1024));
      const record = { key: null, value: Buffer.from('x'), headers: {}, timestamp: 1_700_000_000_000 };
      const batch = await encodeCompressedBatch([record, record, record], {
        bitmask: codecNumbers[codec],
        compress: () => bomb,
      });
      global.gc?.();
      const before = process.memoryUsage().rss;
      let most = before;
      const look = setInterval(() => {
        most = Math.max(most, process.memoryUsage().rss);
      }, 5);
      try {
        const { records } = await readBounded(() => decodeBatch(new Decoder(batch)));
        const limit = mayExpandTo(bomb.length) / (1024 * 1024);
        assert.deepEqual(
          records.map(({ offset, value }: { offset: string; value: Buffer }) => [offset, String(value)]),
          ['0', '1', '2'].map((offset) => [
            offset,
            `svc: a compressed batch of records expands to more than ${Math.floor(limit)} MiB: it was not read`,
          ]),
        );
        assert.ok(most - before < 200 * 1024 * 1024, `${(most - before) / 1e6} MB`);
      } finally {
        clearInterval(look);
      }
    });
  }

  it('may expand to 64 MiB, and a larger one to 16 times its size', () => {
    assert.equal(mostExpandedBytes, 67_108_864);
    assert.deepEqual([1, 4_194_304, 4_194_305].map(mayExpandTo), [67_108_864, 67_108_864, 67_108_880]);
  });
});

describe("kafkajs's codecs", () => {
  it('are as they were where the application reads by itself, and are changed once', async () => {
    const kafka = kafkajs as unknown as Parameters<typeof addCodecs>[0];
    await addCodecs(kafka);
    const table = kafka.CompressionCodecs as unknown as Record<number, () => object>;
    const first = table[1]?.();
    await addCodecs(kafka);
    assert.equal(table[1]?.(), first);
    const large = gzipSync(Buffer.alloc(mostExpandedBytes + 1));
    const { decompress } = first as { decompress(data: Buffer): Promise<Buffer> };
    assert.equal((await decompress(large)).length, mostExpandedBytes + 1);
  });
});

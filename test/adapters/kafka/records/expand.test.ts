import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { compressionsAlgorithms } from '@platformatic/kafka';
import kafkajs from 'kafkajs';
// @ts-expect-error kafkajs has no types for its inner modules.
import Decoder from 'kafkajs/src/protocol/decoder.js';
// @ts-expect-error kafkajs has no types for its inner modules.
import decodeBatch from 'kafkajs/src/protocol/recordBatch/v0/decoder.js';
// @ts-expect-error kafkajs has no types for its inner modules.
import decodeMessages from 'kafkajs/src/protocol/requests/fetch/v4/decodeMessages.js';
import { expand } from '../../../../src/adapters/kafka/compressors.ts';
import { encodeCompressedBatch } from '../../../../src/adapters/kafka/session.ts';
import { loadKafkajs } from '../../../../src/adapters/kafkajs/kafkajs-client.ts';
import { kafkaOptions } from '../kafka-options.ts';

const compress = {
  gzip: gzipSync,
  zstd: zstdCompressSync,
  snappy: compressionsAlgorithms.snappy.compressSync,
  lz4: compressionsAlgorithms.lz4.compressSync,
} as Readonly<Record<'gzip' | 'zstd' | 'snappy' | 'lz4', (data: Buffer) => Buffer>>;
const codecs = Object.keys(compress) as (keyof typeof compress)[];
const bitmasks = { gzip: 1, snappy: 2, lz4: 3, zstd: 4 };
const maxExpandedBytes = 67_108_864;
/** Other batches of the same answer have left this many bytes. */
const expandTo = (bytes: number, codec: keyof typeof compress, data: Buffer): Promise<Buffer> =>
  expand(codec, data, maxExpandedBytes - bytes);
/** A client that has added its codecs to kafkajs. */
const openClient = async () => (await loadKafkajs({ ...kafkaOptions(['127.0.0.1:1']), readsAll: true }))();
const tooLarge = { code: 'SVC_ADAPTERS_BATCH_TOO_LARGE' };

describe('a compressed batch of records', function () {
  this.timeout(30_000);

  for (const codec of codecs) {
    it(`${codec}: expands to as many bytes as it may, and not to one more`, async () => {
      for (const bytes of [1, 1000, 70_000, 5_000_000]) {
        const data = Buffer.from('svc '.repeat(bytes / 4 + 1)).subarray(0, bytes);
        const packed = compress[codec](data);
        assert.ok((await expandTo(bytes, codec, packed)).equals(data));
        if (bytes > 1) await assert.rejects(expandTo(bytes - 1, codec, packed), tooLarge);
      }
    });

    it(`${codec}: random bytes, cut anywhere, end in bytes or an error`, async () => {
      const packed = compress[codec](
        Buffer.from(Array.from({ length: 3000 }, (_, index) => (index * index) % 251)),
      );
      for (let at = 0; at < packed.length; at += 97)
        await expandTo(10_000, codec, packed.subarray(0, at)).then(
          (bytes) => assert.ok(bytes.length <= 10_000),
          () => {},
        );
    });

    it(`${codec}: one that expands to 400 MB takes no such memory, and its records are known by the reason`, async () => {
      const { readBounded } = await openClient();
      const bomb = compress[codec](Buffer.alloc(400 * 1024 * 1024));
      const record = { key: null, value: Buffer.from('x'), headers: {}, timestamp: 1_700_000_000_000 };
      const batch = await encodeCompressedBatch([record, record, record], {
        bitmask: bitmasks[codec],
        compress: () => bomb,
      });
      global.gc?.();
      const before = process.memoryUsage().rss;
      let max = before;
      const look = setInterval(() => {
        max = Math.max(max, process.memoryUsage().rss);
      }, 5);
      try {
        const { records } = await readBounded(() => decodeBatch(new Decoder(batch)));
        const limit = Math.max(maxExpandedBytes, 16 * bomb.length) / (1024 * 1024);
        assert.deepEqual(
          records.map(({ offset, value }: { offset: string; value: Buffer }) => [offset, String(value)]),
          ['0', '1', '2'].map((offset) => [
            offset,
            `svc: a compressed batch of records expands to more than ${Math.floor(limit)} MiB: it was not read`,
          ]),
        );
        assert.ok(max - before < 200 * 1024 * 1024, `${(max - before) / 1e6} MB`);
      } finally {
        clearInterval(look);
      }
    });
  }

  for (const codec of ['snappy', 'lz4'] as const) {
    it(`${codec}: expands 64 MiB in many turns of the event loop`, async () => {
      const line = Array.from(
        { length: 50_000 },
        (_, index) => `{"id":${index * 7919},"amount":${index % 977}}`,
      );
      const text = Buffer.from(line.join(''));
      for (const data of [Buffer.alloc(maxExpandedBytes), Buffer.alloc(maxExpandedBytes, text)]) {
        const packed = compress[codec](data);
        let turns = 0;
        let isDone = false;
        const turn = () => {
          turns++;
          if (!isDone) setImmediate(turn);
        };
        setImmediate(turn);
        const expanded = await expand(codec, packed);
        isDone = true;
        assert.ok(expanded.equals(data));
        // A machine that takes 4 ms for a slice, or longer, has a turn behind each.
        assert.ok(turns > 5, `${turns} turns`);
      }
    });

    it(`${codec}: expands what others compress, and no byte of it is from elsewhere where it is changed`, async () => {
      let seed = 12_345;
      const random = (below: number): number => {
        seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
        return seed % below;
      };
      for (let run = 0; run < 150; run++) {
        const parts = Array.from({ length: 1 + random(30) }, () =>
          random(2) === 0
            ? Buffer.alloc(1 + random(300), String.fromCharCode(97 + random(3)))
            : Buffer.from(Array.from({ length: 1 + random(200) }, () => random(256))),
        );
        const data = Buffer.concat(
          Array.from({ length: 1 + random(60) }, () => parts[random(parts.length)] as Buffer),
        );
        const packed = Buffer.from(compress[codec](data));
        assert.ok((await expand(codec, packed)).equals(data));
        packed[random(packed.length)] = random(256);
        await expandTo(1_000_000, codec, packed).then(
          (bytes) => assert.ok(bytes.length <= 1_000_000),
          () => {},
        );
      }
    });
  }

  it("snappy: reads the blocks of Java's framing, each by itself", async () => {
    const blocks = ['one '.repeat(50), 'two '.repeat(9), ''].map((text) =>
      compress.snappy(Buffer.from(text)),
    );
    const framed = (lengths: readonly number[]) =>
      Buffer.concat([
        Buffer.from('82534e4150505900' + '00000001' + '00000001', 'hex'),
        ...blocks.flatMap((block, index) => {
          const length = Buffer.alloc(4);
          length.writeUInt32BE(lengths[index] ?? block.length);
          return [length, block];
        }),
      ]);
    assert.equal(String(await expand('snappy', framed([]))), 'one '.repeat(50) + 'two '.repeat(9));
    await assert.rejects(expand('snappy', framed([2_000_000])), /damaged/);
    await assert.rejects(expand('snappy', framed([]).subarray(0, -3)), /damaged/);
  });

  it('lz4: reads frames behind each other, blocks that look back to earlier ones of their frame, and plain ones', async () => {
    const block = (hex: string, isPlain = false) => {
      const bytes = Buffer.from(hex, 'hex');
      const head = Buffer.alloc(4);
      head.writeUInt32LE(bytes.length + (isPlain ? 0x8000_0000 : 0));
      return Buffer.concat([head, bytes]);
    };
    const frame = (...blocks: Buffer[]) =>
      Buffer.concat([Buffer.from('04224d18404082', 'hex'), ...blocks, Buffer.alloc(4)]);
    // Eight letters; the four of them from eight bytes back, then one letter.
    const [letters, back] = [block('806162636465666768'), block('00080010' + '7a')];
    assert.equal(String(await expand('lz4', frame(letters, back, block('2121', true)))), 'abcdefghabcdz!!');
    assert.equal(
      String(await expand('lz4', Buffer.concat([frame(letters), frame(letters)]))),
      'abcdefgh'.repeat(2),
    );
    // Not into another frame, nor in front of the first byte.
    await assert.rejects(expand('lz4', Buffer.concat([frame(letters), frame(back)])), /damaged/);
    await assert.rejects(expand('lz4', frame(letters, block('00090010' + '7a'))), /damaged/);
    await assert.rejects(expand('lz4', frame(letters, block('00000010' + '7a'))), /damaged/);
  });

  describe('in one answer with others', () => {
    const batchOf = (count: number, value: Buffer) => {
      const record = { key: null, value, headers: {}, timestamp: 1_700_000_000_000 };
      const compression = { bitmask: bitmasks.zstd, compress: zstdCompressSync };
      return encodeCompressedBatch(
        Array.from({ length: count }, () => record),
        compression,
      );
    };
    const read = async (batches: readonly Buffer[]): Promise<Buffer[]> => {
      const { readBounded } = await openClient();
      const bytes = Buffer.concat(batches);
      const size = Buffer.alloc(4);
      size.writeInt32BE(bytes.length);
      const answer = Buffer.concat([size, bytes, Buffer.alloc(5000)]);
      const records: { value: Buffer }[] = await readBounded(() => decodeMessages(new Decoder(answer)));
      return records.map(({ value }) => value);
    };

    it('is left for the next answer where all together expand to more than 64 MiB', async () => {
      const [large, small] = [await batchOf(1, Buffer.alloc(40_000_000)), await batchOf(1, Buffer.from('x'))];
      assert.ok(large.length < 10_000);
      const lengths = async (batches: readonly Buffer[]) => (await read(batches)).map(({ length }) => length);
      assert.deepEqual(await lengths([large, small, large, small]), [40_000_000, 1]);
      assert.deepEqual(await lengths([large, small]), [40_000_000, 1]);
      const tooLarge = await batchOf(2, Buffer.alloc(40_000_000));
      assert.deepEqual(await lengths([small, tooLarge, small]), [1]);
      const [first = 0, second, ...more] = await lengths([tooLarge, small]);
      assert.ok(first > 1 && second === first);
      assert.deepEqual(more, [1]);
    });

    it('is left for the next answer where all together have more than 100,000 records, and has no more itself', async () => {
      const [many, few] = [await batchOf(60_000, Buffer.from('x')), await batchOf(3, Buffer.from('x'))];
      assert.equal((await read([few, many, few, many, few])).length, 60_006);
      await assert.rejects(read([await batchOf(100_001, Buffer.from('x'))]), {
        ...tooLarge,
        message: /has 100001 records, of which svc reads 100000 at most/,
      });
    });
  });

  it('may expand to 64 MiB, and a larger one to 16 times its size', async () => {
    const sizeOf = async (bytes: Buffer) => (await expand('zstd', zstdCompressSync(bytes))).length;
    assert.equal(await sizeOf(Buffer.alloc(maxExpandedBytes)), maxExpandedBytes);
    await assert.rejects(sizeOf(Buffer.alloc(maxExpandedBytes + 1)), tooLarge);
    const large = randomBytes(4_500_000);
    const larger = Buffer.concat([large, Buffer.alloc(maxExpandedBytes)]);
    assert.equal(await sizeOf(larger), larger.length);
    await assert.rejects(sizeOf(Buffer.concat([large, Buffer.alloc(80_000_000)])), tooLarge);
  });
});

describe("kafkajs's codecs", () => {
  it('are as they were where the application reads by itself, and are changed once', async () => {
    await openClient();
    const table = kafkajs.CompressionCodecs as unknown as Record<number, () => object>;
    const first = table[1]?.();
    await openClient();
    assert.equal(table[1]?.(), first);
    const large = gzipSync(Buffer.alloc(maxExpandedBytes + 1));
    const { decompress } = first as { decompress(data: Buffer): Promise<Buffer> };
    assert.equal((await decompress(large)).length, maxExpandedBytes + 1);
  });
});

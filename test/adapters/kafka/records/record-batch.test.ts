import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  encodeBatch,
  encodeCompressedBatch,
  produceRequest,
} from '../../../../src/adapters/kafka/session.ts';
import type { BrokerRecord } from '../../../../src/publish/broker.ts';

type Encode = (records: readonly BrokerRecord[], topic: string, partition: number) => Promise<Buffer>;

const topicName = fc.stringMatching(/^[A-Za-z0-9._-]{1,249}$/);
const text = fc.string({ unit: 'binary', maxLength: 300 });
const record: fc.Arbitrary<BrokerRecord> = fc.record({
  key: fc.option(text),
  value: fc.uint8Array({ maxLength: 20_000, size: 'max' }).map((bytes) => Buffer.from(bytes)),
  headers: fc.dictionary(text, text, { maxKeys: 70 }),
  timestamp: fc.integer({ min: 1_600_000_000_000, max: 1_999_999_999_999 }),
});

describe('record batches beside those of kafkajs', () => {
  let kafkajsEncodes: Encode;

  before(async () => {
    // @ts-expect-error kafkajs has no types for its inner modules.
    const { default: requests } = await import('kafkajs/src/protocol/requests/produce/index.js');
    kafkajsEncodes = async (records, topic, partition) => {
      const messages = records.map((one) => ({ ...one, timestamp: String(one.timestamp) }));
      const topicData = [{ topic, partitions: [{ partition, messages }] }];
      const { request } = requests.protocol({ version: 7 })({ acks: -1, timeout: 30_000, topicData });
      return (await request.encode()).buffer;
    };
  });

  const ownEncodes: Encode = async (records, topic, partition) => {
    const batch = await encodeBatch(records);
    const { write } = produceRequest({ topic, partition, acks: -1, timeoutMs: 30_000, batch });
    return Buffer.concat(write(7));
  };

  const same = async (records: readonly BrokerRecord[], topic = 'orders', partition = 0): Promise<void> => {
    const [own, theirs] = await Promise.all([
      ownEncodes(records, topic, partition),
      kafkajsEncodes(records, topic, partition),
    ]);
    assert.equal(own.toString('hex'), theirs.toString('hex'));
  };

  const value = Buffer.from('x');
  const noRecords: readonly (readonly [string, object])[] = [
    ...[1, null, undefined, true, {}, { length: 0 }, [], ['a']].map(
      (header) => [`the header ${JSON.stringify(header)}`, { headers: { a: header } }] as const,
    ),
    ['no headers', { headers: null }],
    ['a key that is a number', { key: 1 }],
    ['a key that is a list', { key: [] }],
    ['no value', { value: undefined }],
    [
      'a value that cannot be made',
      {
        get value() {
          throw new Error('the card 4111');
        },
      },
    ],
  ];
  for (const [name, rest] of noRecords)
    it(`say of ${name} that it is no record, and none of its values`, async () => {
      const plain = { key: null, value, headers: {}, timestamp: 1 };
      const bad = Object.defineProperties(
        { ...plain },
        Object.getOwnPropertyDescriptors(rest),
      ) as BrokerRecord;
      const gone = (error: { code: string; message: string }): boolean =>
        error.code === 'SVC_PUBLISH_NOT_A_RECORD' && !error.message.includes('4111');
      const compression = { bitmask: 1, compress: (data: Buffer) => data };
      for (const records of [[bad], [plain, bad]]) {
        await assert.rejects(encodeBatch(records), gone);
        await assert.rejects(encodeCompressedBatch(records, compression), gone);
      }
    });

  it('are the bytes that kafkajs makes, whatever is in them', async () => {
    const records = fc.array(record, { minLength: 1, maxLength: 20 });
    const partition = fc.integer({ min: 0, max: 2 ** 31 - 1 });
    await fc.assert(
      fc.asyncProperty(records, topicName, partition, (some, topic, number) => same(some, topic, number)),
      { numRuns: 200 },
    );
  });

  it('are so at each length at which a number takes one byte more', async () => {
    const plain = { key: null, headers: {}, timestamp: 1_700_000_000_000 };
    for (const length of [0, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576])
      await same([{ ...plain, value: Buffer.alloc(length, 'x') }]);
    const value = Buffer.from('x');
    for (const count of [63, 64, 65, 500, 8_192, 8_193])
      await same(Array.from({ length: count }, () => ({ ...plain, value })));
    for (const laterMs of [63, 64, 2 ** 30 - 1, 2 ** 30, 2 ** 31, 2 ** 36])
      await same([
        { ...plain, value },
        { ...plain, value, timestamp: plain.timestamp + laterMs },
      ]);
  });

  it('are the same where a large one takes several turns of the event loop, in which others get theirs', async () => {
    const records = [1, 300_000, 524_287, 524_288, 700_000, 20, 2_000_000].map((length, index) => ({
      ...{ key: String(index), value: Buffer.alloc(length, index), headers: { index: String(index) } },
      timestamp: 1_700_000_000_000 + index,
    }));
    const request = await kafkajsEncodes(records, 'orders', 0);
    const compressed = (all: typeof records) =>
      encodeCompressedBatch(all, { bitmask: 0, compress: (data: Buffer) => data });
    for (const encode of [encodeBatch, compressed]) {
      let turns = 0;
      let isOver = false;
      const count = (): void => {
        turns++;
        if (!isOver) setImmediate(count);
      };
      setImmediate(count);
      const bytes = await encode(records);
      isOver = true;
      assert.equal(bytes.readInt32BE(8), bytes.length - 12);
      assert.equal(bytes.compare(request.subarray(-bytes.length)), 0);
      assert.ok(turns > 5, `${turns} turns`);
    }
  });

  it('take no further turn where they are small', async () => {
    let isLater = false;
    setImmediate(() => {
      isLater = true;
    });
    await encodeBatch([{ key: 'a', value: Buffer.alloc(400_000), headers: {}, timestamp: 1 }]);
    assert.equal(isLater, false);
  });

  it('are so for empty texts, long ones, and letters of two to four bytes', async () => {
    const value = Buffer.alloc(0);
    const texts = ['', 'a'.repeat(63), 'a'.repeat(64), 'ä', '漢字', '👍', 'a\u0000b', '\ud800'];
    for (const one of texts)
      await same([{ key: one, value, headers: { [one]: one, other: one }, timestamp: 1_700_000_000_000 }]);
  });
});

import assert from 'node:assert/strict';
import * as vendor from '@platformatic/kafka';
import fc from 'fast-check';
import { encodeBatch, encodeCompressedBatch } from '../../../../src/adapters/kafka/session.ts';
import type { BrokerRecord } from '../../../../src/publish/broker.ts';

const read = (batch: Buffer) => vendor.readRecordsBatch(vendor.Reader.from(batch));

function toRecord({ key, value, headers, timestampDelta }: vendor.KafkaRecord, first: number): BrokerRecord {
  const pairs = headers.map(([name, text]) => [String(name), String(text)]);
  return {
    key: key === null ? null : String(key),
    value: Buffer.from(value as Buffer),
    headers: Object.fromEntries(pairs),
    timestamp: first + Number(timestampDelta),
  };
}

describe('record batches, read by @platformatic/kafka', () => {
  const record = fc.record({
    key: fc.oneof(fc.constant(null), fc.string({ unit: 'grapheme' })),
    value: fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    headers: fc.dictionary(
      fc.string({ minLength: 1 }).filter((name) => name !== '__proto__'),
      fc.string({ unit: 'grapheme', minLength: 1 }),
      { noNullPrototype: true },
    ),
    timestamp: fc.integer({ min: 0, max: 4_102_444_800_000 }),
  });

  it('is read by another implementation as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 80 }), async (records) => {
        const bytes = await encodeBatch(records);
        const batch = read(bytes);
        const first = Math.min(...records.map(({ timestamp }) => timestamp));
        assert.deepEqual(
          batch.records.map((each) => toRecord(each, first)),
          records.map((each) => ({ ...each, key: each.key === '' ? '' : each.key })),
        );
        assert.deepEqual(
          batch.records.map(({ offsetDelta }) => offsetDelta),
          records.map((_, index) => index),
        );
        assert.equal(batch.length, bytes.length - 12);
        assert.equal(batch.crc, vendor.crc32c(bytes.subarray(21)) >>> 0);
        assert.equal(Number(batch.maxTimestamp), Math.max(...records.map(({ timestamp }) => timestamp)));
      }),
      { numRuns: 200 },
    );
  });

  it('keeps times that lie far apart, before and after the first', async () => {
    const value = Buffer.from('x');
    const times = [1_700_000_000_000, 0, 4_102_444_800_000, 1_700_000_000_001, 1_700_000_000_000 - 2 ** 31];
    const records = times.map((timestamp) => ({ key: null, value, headers: {}, timestamp }));
    assert.deepEqual(
      read(await encodeBatch(records)).records.map((each) => toRecord(each, Math.min(...times)).timestamp),
      times,
    );
  });

  it('says in its head how it is compressed', async () => {
    const records = [{ key: 'a', value: Buffer.from('x'.repeat(2000)), headers: { b: 'c' }, timestamp: 5 }];
    const { compress } = {
      compress: (data: Buffer) => vendor.compressionsAlgorithms.zstd.compressSync(data),
    };
    const bytes = await encodeCompressedBatch(records, { bitmask: 4, compress });
    assert.ok(bytes.length < 300, `${bytes.length} bytes`);
    const batch = read(bytes);
    assert.equal(batch.attributes, 4);
    assert.deepEqual(toRecord(batch.records[0] as vendor.KafkaRecord, 5), records[0]);
  });
});

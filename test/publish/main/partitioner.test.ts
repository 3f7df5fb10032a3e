import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { murmur2, partitionOf, partitionOfKey } from '../../../src/publish/broker.ts';
import { createPartitioner } from '../../../src/publish/main/queue.ts';

describe('partitioner', () => {
  it('hashes as Kafka does: the vectors of its own tests', () => {
    const vectors: [string, number][] = [
      ['21', -973932308],
      ['foobar', -790332482],
      ['a-little-bit-long-string', -985981536],
      ['a-little-bit-longer-string', -1486304829],
      ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
      ['abc', 479470107],
    ];
    for (const [text, hash] of vectors) assert.equal(murmur2(Buffer.from(text)), hash, text);
  });

  it('places keys of every length and script where kafkajs places them', () => {
    const murmur = createRequire(import.meta.url)('kafkajs/src/producer/partitioners/default/murmur2.js') as (
      key: string,
    ) => number;
    const characters = ['a', 'Z', '7', '-', 'é', '漢', '😀', '\u0000'];
    for (let length = 0; length < 700; length += length < 40 ? 1 : 41) {
      const key = Array.from({ length }, (_, at) => characters[(at * 5 + length) % characters.length]).join(
        '',
      );
      for (const count of [1, 3, 6, 100])
        assert.equal(partitionOfKey(key, count), (murmur(key) & 0x7fffffff) % count, `${length} of ${count}`);
    }
  });

  it('places a single event by its key, and one without a key anywhere', () => {
    assert.equal(partitionOf('abc', 6), partitionOfKey('abc', 6));
    const places = new Set(Array.from({ length: 1_000 }, () => partitionOf(null, 3)));
    assert.deepEqual([...places].sort(), [0, 1, 2]);
  });

  it('keeps events without a key on one partition until a batch of it is taken', () => {
    const partitioner = createPartitioner(() => 0.5);
    const next = () => partitioner.partitionOf(null, 4);
    assert.deepEqual([next(), next(), next()], [2, 2, 2]);
    partitioner.batchTaken(1);
    assert.equal(next(), 2);
    partitioner.batchTaken(2);
    assert.deepEqual([next(), next()], [3, 3]);
    partitioner.batchTaken(3);
    assert.equal(next(), 0);
    partitioner.batchTaken(0);
    assert.equal(next(), 1);
  });
});

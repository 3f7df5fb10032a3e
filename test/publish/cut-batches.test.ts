import assert from 'node:assert/strict';
import { countForBatch, cutBatches, halvesOf } from '../../src/publish/cut-batches.ts';

const bytesOf = (bytes: number): number => bytes;

describe('cutting batches', () => {
  it('takes as many as both limits let in, and one at least', () => {
    const limits = { maxEvents: 3, maxBytes: 10 };
    assert.equal(countForBatch([1, 1, 1, 1], bytesOf, limits), 3);
    assert.equal(countForBatch([5, 5, 1], bytesOf, limits), 2);
    assert.equal(countForBatch([5, 6], bytesOf, limits), 1);
    assert.equal(countForBatch([11, 1], bytesOf, limits), 1);
    assert.equal(countForBatch([1, 1, 11, 1], bytesOf, limits, 2), 1);
  });

  it('cuts all of them, in their order', () => {
    const limits = { maxEvents: 3, maxBytes: 10 };
    assert.deepEqual(cutBatches([1, 2, 3, 4, 11, 5, 5, 1], bytesOf, limits), [
      [1, 2, 3],
      [4],
      [11],
      [5, 5],
      [1],
    ]);
    assert.deepEqual(cutBatches([], bytesOf, limits), []);
  });

  it('halves what is too large', () => {
    assert.deepEqual(halvesOf([1, 2, 3]), [[1, 2], [3]]);
    assert.deepEqual(halvesOf([1, 2]), [[1], [2]]);
  });
});

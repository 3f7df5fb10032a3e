import assert from 'node:assert/strict';
import { historyOf } from '../../../src/manage/views.ts';

type Sample = Parameters<typeof historyOf>[0][number];

describe('the last hour', () => {
  const nothing = { published: 0, failed: 0, dlq: 0, brokerErrors: 0, sends: 0, sendSeconds: 0 };
  const levels = { queued: 0, backup: 0, outbox: null, circuit: 0, buckets: new Array(15).fill(0) };
  const sample = (atMs: number, totals: Partial<Sample['totals']>): Sample => ({
    ...{ atMs, totals: { ...nothing, ...levels, wallMs: 1_000_000 + atMs, ...totals } },
  });
  const took = (...counts: number[]): number[] => levels.buckets.map((_, index) => counts[index] ?? 0);

  it('has what was counted between two looks, and levels as they were at the second', () => {
    const history = historyOf(
      [
        sample(0, { published: 5, sends: 5, sendSeconds: 1, buckets: took(5) }),
        sample(10_000, {
          ...{ published: 25, failed: 1, sends: 26, sendSeconds: 1.21, queued: 3, backup: 7, outbox: 2 },
          ...{ circuit: 1, buckets: took(5, 20, 0, 0, 0, 0, 1) },
        }),
        sample(21_000, {
          published: 25,
          failed: 1,
          sends: 26,
          sendSeconds: 1.21,
          buckets: took(5, 20, 0, 0, 0, 0, 1),
        }),
      ],
      0,
    );
    assert.deepEqual(history, {
      ...{ atMs: [1_010_000, 1_021_000], seconds: [10, 11], published: [20, 0], failed: [1, 0] },
      // 19.95 of 21: within the 20 that took 5 to 10 ms.
      ...{ meanMs: [10, null], p95Ms: [10, null], queued: [3, 0], backup: [7, 0], outbox: [2, null] },
      circuit: [1, 0],
    });
  });

  it('leaves out what the page has', () => {
    const samples = [0, 10_000, 20_000].map((atMs) => sample(atMs, {}));
    assert.deepEqual(historyOf(samples, 1_010_000).atMs, [1_020_000]);
    assert.deepEqual(historyOf(samples, 1_020_000).atMs, []);
  });
});

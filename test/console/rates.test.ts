import assert from 'node:assert/strict';
import { callsOf, ratesOf, type Seen } from '../../console/rates.ts';

describe('the counts of the console', () => {
  const seen = (atMs: number, calls: number, failed: number, skipped: number): Seen =>
    ({
      ...{ atMs, backup: { drained: 0 } },
      targets: [
        { target: 'a', state: 'patched', calls, failed, skipped },
        { target: 'b', state: 'patched', calls: 1, failed: 0, skipped: 0 },
      ],
      // What makes no event is no call of the ledger.
      counts: {
        ...{ calls: calls + 1 - failed - skipped, outbox: 0, rolled_back: 0 },
        published: 0,
        dlq: 0,
        relayed: 0,
      },
    }) as unknown as Seen;

  for (const [what, calls, failed, skipped, expected] of [
    ['those that made an event', 4, 0, 0, 5],
    ['those that failed', 4, 4, 0, 5],
    ['those that make no event', 4, 0, 4, 5],
    ['all of them together', 9, 3, 2, 10],
  ] as const)
    it(`calls are ${what}`, () => {
      assert.equal(callsOf(seen(0, calls, failed, skipped)), expected);
      const rates = ratesOf([seen(0, 0, 0, 0), seen(2_000, calls, failed, skipped)]);
      assert.equal(rates?.calls, calls / 2);
      assert.equal(rates?.queued, (calls - failed - skipped) / 2);
    });
});

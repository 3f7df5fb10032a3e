import assert from 'node:assert/strict';
import { createBackoffs } from '../../../src/outbox/relay/relay.ts';
import { useClock } from '../../support/fake-time.ts';

describe('relay: pauses', () => {
  function pauses() {
    let nowMs = 0;
    useClock({ monotonic: () => nowMs });
    const made = createBackoffs({ firstMs: 5_000, longestMs: 12_000 });
    const triedAt = (ms: number): boolean => {
      nowMs = ms;
      made.newPass();
      return !made.has('t');
    };
    return { made, triedAt, at: (ms: number) => (nowMs = ms) };
  }

  it('doubles the pause up to its longest, and begins anew after a success', () => {
    const { made, triedAt } = pauses();
    assert.equal(made.pause('t'), true);
    assert.deepEqual([triedAt(4_999), triedAt(5_000)], [false, true]);
    assert.equal(made.pause('t'), false);
    assert.deepEqual([triedAt(14_999), triedAt(15_000)], [false, true]);
    assert.equal(made.pause('t'), false);
    assert.deepEqual([triedAt(26_999), triedAt(27_000)], [false, true]);
    assert.deepEqual([made.resume('t'), made.resume('t')], [true, false]);
    assert.equal(made.pause('t'), true);
    assert.deepEqual([triedAt(31_999), triedAt(32_000)], [false, true]);
  });

  it('lets nothing through in the middle of a pass, which has left out earlier rows', () => {
    const { made, at } = pauses();
    made.pause('t');
    assert.equal(made.nextMs(), 5_000);
    at(6_000);
    assert.deepEqual([made.has('t'), made.nextMs()], [true, 0]);
    made.newPass();
    assert.deepEqual([made.has('t'), made.nextMs()], [false, Number.POSITIVE_INFINITY]);
  });
});

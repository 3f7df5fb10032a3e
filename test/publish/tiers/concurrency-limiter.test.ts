import assert from 'node:assert/strict';
import { createConcurrencyLimiter, usualLimits } from '../../../src/publish/tiers/tiers.ts';

const atOnce = { maxOnTheWay: 2, waiting: { maxEvents: 2, maxBytes: 10 } };

/** Who has entered, in which order. */
function entering(limits = atOnce) {
  const entrance = createConcurrencyLimiter(limits);
  const entered: number[] = [];
  let number = 0;
  return {
    ...entrance,
    entered,
    async come(bytes = 1) {
      const own = ++number;
      void entrance.acquire(bytes).then(() => entered.push(own));
      await undefined;
    },
    async leave() {
      entrance.release();
      await undefined;
    },
  };
}

describe('the concurrency limit of the tiers', () => {
  it('lets 1,000 events begin at once, and those behind them when others have their outcome, in their order', async () => {
    const { come, leave, entered } = entering(usualLimits);
    for (let count = 0; count < 1_003; count++) await come();
    assert.equal(entered.length, 1_000);
    await leave();
    await come();
    await leave();
    await leave();
    await leave();
    assert.deepEqual(entered.slice(1_000), [1_001, 1_002, 1_003, 1_004]);
  });

  it('lets the first one begin where one more would wait than may, by number', async () => {
    const { come, leave, entered } = entering();
    for (let count = 0; count < 4; count++) await come();
    assert.deepEqual(entered, [1, 2]);
    await come();
    assert.deepEqual(entered, [1, 2, 3]);
    await leave();
    assert.deepEqual(entered, [1, 2, 3], 'three were on their way');
    await leave();
    assert.deepEqual(entered, [1, 2, 3, 4]);
  });

  it('and by size: one that is larger than all that may wait begins last of them, and waits no more', async () => {
    const { come, entered } = entering();
    for (const bytes of [1, 1, 5, 5]) await come(bytes);
    assert.deepEqual(entered, [1, 2]);
    await come(1);
    assert.deepEqual(entered, [1, 2, 3]);
    await come(11);
    assert.deepEqual(entered, [1, 2, 3, 4, 5, 6]);
  });

  it('is open at the end: nobody waits any more', async () => {
    const { come, open, entered } = entering();
    for (let count = 0; count < 4; count++) await come();
    open();
    await undefined;
    assert.deepEqual(entered, [1, 2, 3, 4]);
    await come();
    assert.deepEqual(entered, [1, 2, 3, 4, 5]);
  });
});

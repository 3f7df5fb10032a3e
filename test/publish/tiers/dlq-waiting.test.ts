import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createDlqWaiting } from '../../../src/publish/tiers/tiers.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';

describe('dead letters that wait', () => {
  let nowMs: number;
  let opened: number;
  let closed: number;
  let counts: (number | Error)[];
  const logger = { debug() {} };

  beforeEach(() => {
    [nowMs, opened, closed, counts] = [0, 0, 0, []];
    useClock({ monotonic: () => nowMs });
  });

  const waitingOf = () => {
    useLogger(logger);
    return createDlqWaiting(async () => ({
      async open(forRecovery) {
        assert.equal(forRecovery, false);
        opened++;
      },
      async count() {
        const count = counts.shift() ?? 0;
        if (count instanceof Error) throw count;
        return count;
      },
      async close() {
        closed++;
      },
    }));
  };
  const settled = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn++) await nextTurn();
  };

  it('are not asked for until somebody wants to know, who does not wait for the answer', async () => {
    counts = [4];
    const waiting = waitingOf();
    await settled();
    assert.equal(opened, 0);
    assert.equal(waiting(), null);
    await settled();
    assert.equal(waiting(), 4);
    assert.deepEqual([opened, closed], [1, 1]);
  });

  it('are counted anew after a minute, not before', async () => {
    counts = [4, 7];
    const waiting = waitingOf();
    waiting();
    await settled();
    nowMs = 59_999;
    assert.equal(waiting(), 4);
    await settled();
    assert.equal(opened, 1);
    nowMs = 60_000;
    assert.equal(waiting(), 4);
    await settled();
    assert.equal(waiting(), 7);
    assert.deepEqual([opened, closed], [2, 2]);
  });

  it('are asked for one at a time', async () => {
    const waiting = waitingOf();
    for (let scrape = 0; scrape < 10; scrape++) waiting();
    await settled();
    assert.equal(opened, 1);
  });

  it('are not known where the broker cannot say, which is not asked again at once, and known again later', async () => {
    counts = [4, new Error('not authorized'), 5];
    const waiting = waitingOf();
    const next = async (atMs: number): Promise<number | null> => {
      nowMs = atMs;
      waiting();
      await settled();
      return waiting();
    };
    assert.equal(await next(0), 4);
    assert.equal(await next(60_000), null);
    assert.equal(await next(119_999), null);
    assert.deepEqual([opened, closed], [2, 2]);
    assert.equal(await next(120_000), 5);
  });
});

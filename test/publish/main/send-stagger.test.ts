import assert from 'node:assert/strict';
import { createSendStagger } from '../../../src/publish/main/queue.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { event, fakeCluster, queueOver } from '../fake-cluster.ts';

const ok = { ok: true } as const;

describe('stagger of the partitions of a topic', () => {
  it('spreads those that are due at once evenly over their wait', () => {
    const waitMs = createSendStagger({ size: 4 });
    assert.deepEqual(
      [0, 0, 0, 0].map((nowMs) => waitMs(nowMs, 20)),
      [0, 5, 10, 15],
    );
  });

  it('holds nobody up who comes when it is his turn, or later', () => {
    const waitMs = createSendStagger({ size: 4 });
    assert.deepEqual(
      [0, 5, 10, 40, 41].map((nowMs) => waitMs(nowMs, 20)),
      [0, 0, 0, 0, 4],
    );
  });

  it('a partition alone waits for nobody: one send takes longer than nothing', () => {
    const waitMs = createSendStagger({ size: 1 });
    assert.deepEqual([waitMs(0, 20), waitMs(21, 20)], [0, 0]);
  });

  describe('in a queue', () => {
    const clock = clockOfEach({ now: 1_700_000_000_000 });

    /** Times of the sends to four partitions whose events came at once, right behind a send of two events each. */
    async function timesOfSends(isAwaited: boolean): Promise<readonly number[]> {
      const { broker, sends, partitions } = fakeCluster();
      partitions.current = 4;
      const batch = { maxEvents: 500, maxBytes: 900_000, lingerMs: 20, isAwaited };
      const { queue } = queueOver(broker, { batch });
      const everywhere = (): void => {
        for (let id = 0; id < 100; id++) void queue.publish(event(String(id)));
      };
      everywhere();
      await clock.tickAsync(1);
      assert.equal(sends.length, 4);
      everywhere();
      for (const send of sends) send.answer(ok);
      const startedMs = Date.now();
      const times: number[] = [];
      for (let ms = 0; ms < 50; ms++) {
        await clock.tickAsync(1);
        while (times.length < sends.length - 4) times.push(Date.now() - startedMs);
      }
      return times;
    }

    it('small batches leave one after the other where nobody waits', async () => {
      assert.deepEqual(await timesOfSends(false), [20, 25, 30, 35]);
    });

    it('and all when they are due where callers wait', async () => {
      assert.deepEqual(await timesOfSends(true), [2, 2, 2, 2]);
    });
  });
});

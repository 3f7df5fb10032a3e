import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { createBackupOrder } from '../../../src/publish/order/backup-order.ts';
import { partitionOfKey } from '../../../src/publish/partition-of-key.ts';
import type { FailedEvent } from '../../../src/publish/tier.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { silentLog as logger } from '../../support/log.ts';
import { event, fakeCluster, forbidden, queueOver } from '../fake-cluster.ts';

describe('an event that is held while nobody knows where the one before it ends', () => {
  const time = clockOfEach({ now: 1_700_000_000_000 });
  const clock = { now: () => Date.now(), monotonic: () => performance.now() };

  /** The first event is refused, and on its way through the tiers; the second one waits for it. */
  async function twoEvents(partitions: number | 'unknown') {
    const { broker, sends } = fakeCluster(partitions);
    const order = createBackupOrder({ partitionOfKey, clock, logger });
    order.earlierRun({ topics: new Set() });
    const failed: FailedEvent[] = [];
    const answers: ((outcome: Outcome) => void)[] = [];
    const { queue } = queueOver(broker, {
      order,
      deliveryTimeoutMs: 8_000,
      next: (one) => {
        failed.push(one);
        return new Promise((resolve) => answers.push(resolve));
      },
    });
    void queue.publish(event('1', { key: 'k' }));
    await time.tickAsync(10);
    sends[0]?.answer({ ok: false, failure: forbidden });
    await time.tickAsync(10);
    void queue.publish(event('2', { key: 'k' }));
    await time.tickAsync(20_000);
    assert.deepEqual([sends.length, failed.length, queue.state().events], [1, 1, 0]);
    const release = async (): Promise<void> => {
      answers[0]?.('dlq');
      await time.tickAsync(10);
    };
    return { queue, sends, failed, release };
  }

  for (const partitions of [1, 'unknown'] as const) {
    it(`is sent then, and has all of its time (partitions: ${partitions})`, async () => {
      const { queue, sends, failed, release } = await twoEvents(partitions);
      await release();
      assert.deepEqual(sends[1]?.ids, ['2']);
      assert.equal(queue.state().events, 1);
      await time.tickAsync(7_900);
      assert.equal(failed.length, 1);
      await time.tickAsync(8_200);
      assert.equal(failed[1]?.failure.cause, 'TimeoutException');
      assert.equal(queue.state().events, 0);
    });

    it(`goes to the next tier where the cluster is away by then (partitions: ${partitions})`, async () => {
      const { queue, sends, failed, release } = await twoEvents(partitions);
      queue.clusterAway('away', performance.now());
      await time.tickAsync(10);
      assert.equal(failed.length, 1);
      await release();
      assert.equal(sends.length, 1);
      assert.match(failed[1]?.failure.message ?? '', /^Circuit breaker is OPEN/);
    });
  }
});

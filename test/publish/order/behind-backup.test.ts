import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { partitionOfKey } from '../../../src/publish/broker.ts';
import { createRetryPolicy } from '../../../src/publish/main/cluster-state.ts';
import { createBackupOrder } from '../../../src/publish/order/backup-order.ts';
import type { FailedEvent } from '../../../src/publish/tier.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { away, event, fakeCluster, queueOver, usualRetry } from '../fake-cluster.ts';

describe('events behind the backup', () => {
  const time = clockOfEach({ now: 1_700_000_000_000 });

  /** A queue without retries, whose tiers are answered by hand: `stored` is what the drained backup says. */
  function setUp(
    partitions: number | 'unknown' | 'no answer',
    { maxBehindBackup = 10, buffer = 10 }: { maxBehindBackup?: number | undefined; buffer?: number } = {},
  ) {
    const { broker, sends } = fakeCluster(partitions === 'no answer' ? 'unknown' : partitions);
    if (partitions === 'no answer') broker.partitionsFor = () => new Promise(() => {});
    const order = createBackupOrder({ partitionOfKey });
    order.earlierRun({ topics: new Set() });
    const failed: FailedEvent[] = [];
    const answers = new Map<string, (outcome: Outcome) => void>();
    const { queue, clusterState } = queueOver(broker, {
      order,
      deliveryTimeoutMs: 8_000,
      behindBackup: { maxEvents: maxBehindBackup, maxBytes: 1_000_000 },
      buffer: { maxEvents: buffer, maxBytes: 1_000_000 },
      retry: createRetryPolicy({ ...usualRetry, enabled: false }),
      next: (one) => {
        failed.push(one);
        return new Promise((resolve) => answers.set(one.event.eventId, resolve));
      },
    });
    const publish = async (id: string, key = 'k'): Promise<void> => {
      void queue.publish(event(id, { key }));
      await time.tickAsync(10);
    };
    const tiers = async (id: string, outcome: Outcome): Promise<void> => {
      const one = failed.findLast(({ event: { eventId } }) => eventId === id);
      if (outcome === 'backup') order.stored(one as FailedEvent);
      answers.get(id)?.(outcome);
      await time.tickAsync(10);
    };
    const fail = async (): Promise<void> => {
      sends.at(-1)?.answer({ ok: false, failure: away });
      await time.tickAsync(10);
    };
    return {
      ...{ queue, clusterState },
      sends,
      failed,
      publish,
      tiers,
      fail,
      asked: () => failed.map((one) => one.event.eventId),
    };
  }

  for (const partitions of [1, 'unknown'] as const) {
    /** The first event is on its way through the tiers; the second one waits for what becomes of it. */
    async function twoEvents(maxBehindBackup?: number) {
      const all = setUp(partitions, { maxBehindBackup });
      await all.publish('1');
      await all.fail();
      await all.publish('2');
      await time.tickAsync(20_000);
      assert.deepEqual([all.sends.length, all.asked(), all.queue.state().events], [1, ['1'], 0]);
      return all;
    }

    it(`are sent when nothing of their partition is in the backup, and have all of their time (partitions: ${partitions})`, async () => {
      const { queue, sends, failed, tiers } = await twoEvents();
      await tiers('1', 'dlq');
      assert.deepEqual(sends[1]?.ids, ['2']);
      assert.equal(queue.state().events, 1);
      await time.tickAsync(7_900);
      assert.equal(failed.length, 1);
      await time.tickAsync(8_200);
      assert.equal(failed[1]?.failure.cause, 'TimeoutException');
      assert.equal(queue.state().events, 0);
    });

    it(`go to the next tier where the cluster is away by then (partitions: ${partitions})`, async () => {
      const { clusterState, sends, failed, tiers } = await twoEvents();
      clusterState.silent('away', performance.now());
      await time.tickAsync(10);
      assert.equal(failed.length, 1);
      await tiers('1', 'dlq');
      assert.deepEqual([sends.length, failed[1]?.failure.cause], [1, 'CircuitBreakerOpen']);
    });

    it(`leave room for as many others when they are sent (partitions: ${partitions})`, async () => {
      const { sends, asked, publish, tiers, fail } = await twoEvents(1);
      await tiers('1', 'dlq');
      assert.deepEqual(sends[1]?.ids, ['2']);
      await fail();
      await publish('3');
      assert.deepEqual(asked(), ['1', '2']);
      await tiers('2', 'dlq');
      assert.deepEqual(sends[2]?.ids, ['3']);
    });

    it(`go to the tiers with one more for which there is no room (partitions: ${partitions})`, async () => {
      const { asked, publish } = await twoEvents(1);
      await publish('3');
      assert.deepEqual(asked().sort(), ['1', '2', '3']);
    });
  }

  it('for want of room in the backup ask for it again as soon as anything else was stored there', async () => {
    const keyOf = (partition: number): string =>
      ['a', 'b', 'c', 'd'].find((key) => partitionOfKey(key, 2) === partition) as string;
    const { asked, publish, tiers, fail } = setUp(2);
    await publish('1', keyOf(0));
    await fail();
    await tiers('1', 'backup');
    await publish('2', keyOf(0));
    await tiers('2', 'lost');
    await publish('3', keyOf(1));
    await fail();
    await tiers('3', 'dlq');
    await publish('4', keyOf(1));
    await fail();
    assert.deepEqual(asked(), ['1', '2', '3', '4']);
    await tiers('4', 'backup');
    assert.deepEqual(asked(), ['1', '2', '3', '4', '2']);
  });

  for (const partitions of [1, 'unknown', 'no answer'] as const)
    it(`for want of room in the backup keep their order: the first asks once a second, and the others follow it (partitions: ${partitions})`, async () => {
      const { asked, publish, tiers, fail, clusterState } = setUp(partitions);
      await publish('1');
      if (partitions === 'no answer') clusterState.silent('away', performance.now());
      else await fail();
      await time.tickAsync(10);
      await tiers('1', 'backup');
      await publish('2');
      await tiers('2', 'lost');
      await publish('3');
      assert.deepEqual(asked(), ['1', '2']);
      await time.tickAsync(1_000);
      assert.deepEqual(asked(), ['1', '2', '2']);
      await tiers('2', 'lost');
      await publish('4');
      await time.tickAsync(1_000);
      assert.deepEqual(asked(), ['1', '2', '2', '2']);
      await tiers('2', 'backup');
      assert.deepEqual(asked(), ['1', '2', '2', '2', '3', '4']);
      for (const id of ['3', '4']) await tiers(id, 'backup');
      await publish('5');
      assert.deepEqual(asked().at(-1), '5');
    });

  it('are counted with those to be sent as soon as they may be, while a send of their partition has no answer', async () => {
    const { queue, publish, tiers, asked } = setUp(1, { buffer: 1 });
    await publish('1');
    await publish('2');
    await publish('3');
    assert.deepEqual([asked(), queue.state().events], [['2'], 1]);
    await tiers('2', 'dlq');
    assert.deepEqual([asked(), queue.state().events], [['2'], 2]);
  });

  describe('while the cluster does not say how many partitions there are', () => {
    it('go behind what is in the backup at once', async () => {
      const { publish, tiers, asked } = setUp('no answer', { buffer: 1 });
      await publish('1');
      await publish('2');
      assert.deepEqual(asked(), ['2']);
      await tiers('2', 'backup');
      assert.deepEqual(asked(), ['2', '1']);
      await publish('3');
      assert.deepEqual(asked(), ['2', '1', '3']);
    });

    it('wait where it is away, and go to the next tier when they may be sent', async () => {
      const { clusterState, publish, tiers, asked } = setUp('no answer', { buffer: 1 });
      await publish('1');
      await publish('2');
      await publish('3');
      clusterState.silent('away', performance.now());
      await time.tickAsync(10);
      assert.deepEqual(asked(), ['2', '1']);
      await tiers('1', 'dlq');
      await tiers('2', 'dlq');
      assert.deepEqual(asked(), ['2', '1', '3']);
    });
  });
});

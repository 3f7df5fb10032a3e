import assert from 'node:assert/strict';
import sinon from 'sinon';
import { defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import type { QueueOptions } from '../../../src/publish/main/queue.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { away, event, fakeCluster, queueOver } from '../fake-cluster.ts';

const hang = (): Promise<never> => new Promise(() => {});

describe('queue over a cluster that hangs', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });

  function over(describe: () => Promise<never> | Promise<unknown>, options: Partial<QueueOptions> = {}) {
    const cluster = fakeCluster();
    const asked = sinon.spy(describe);
    const broker = { ...cluster.broker, describe: asked as never };
    return { ...cluster, ...queueOver(broker, { breaker: defaultBreaker, ...options }), asked };
  }

  it('opens the breaker 4.5 s after the last sign of life, not before, and gives up what is not in a send', async () => {
    const { queue, clusterState, asked, failed, lines } = over(hang);
    void queue.publish(event('1', { key: 'k' }));
    await clock.tickAsync(100);
    void queue.publish(event('2', { key: 'k' }));
    await clock.tickAsync(2_399);
    assert.equal(asked.callCount, 0);
    await clock.tickAsync(1);
    assert.equal(asked.callCount, 1);
    await clock.tickAsync(1_999);
    assert.deepEqual([clusterState.state, failed.length], ['CLOSED', 0]);
    await clock.tickAsync(1);
    assert.equal(clusterState.state, 'OPEN');
    assert.deepEqual(
      failed.map(({ event: one, failure }) => [one.eventId, failure.cause]),
      [['2', 'CircuitBreakerOpen']],
    );
    assert.ok(
      lines.includes(
        'warn Circuit breaker is OPEN: new events go to the next tier until the cluster answers (it does not answer)',
      ),
    );
    void queue.publish(event('3', { key: 'k' }));
    assert.equal(failed.length, 2);
  });

  it('does so where not even the number of partitions could be asked for', async () => {
    const cluster = fakeCluster();
    const broker = { ...cluster.broker, partitionsFor: hang, describe: hang };
    const { queue, clusterState, failed } = queueOver(broker, { breaker: defaultBreaker });
    void queue.publish(event('1'));
    await clock.tickAsync(4_500);
    assert.deepEqual([clusterState.state, failed.length], ['OPEN', 1]);
  });

  it('leaves it closed while the question is answered, or a send has ended meanwhile, and asks again', async () => {
    const { queue, clusterState, asked, sends } = over(async () => ({}));
    void queue.publish(event('1'));
    await clock.tickAsync(10_000);
    assert.deepEqual([clusterState.state, asked.callCount], ['CLOSED', 4]);
    sends[0]?.answer({ ok: true });
    await clock.tickAsync(10_000);
    assert.equal(asked.callCount, 4);

    const second = over(hang);
    void second.queue.publish(event('1'));
    await clock.tickAsync(3_000);
    second.sends[0]?.answer({ ok: false, failure: away });
    await clock.tickAsync(1_500);
    assert.equal(second.clusterState.state, 'CLOSED');
  });

  it('does not ask about an event that has just come, however long there was none', async () => {
    const { queue, asked, sends } = over(hang);
    void queue.publish(event('1'));
    await clock.tickAsync(50);
    sends[0]?.answer({ ok: true });
    await clock.tickAsync(2_400);
    void queue.publish(event('2'));
    await clock.tickAsync(2_499);
    assert.equal(asked.callCount, 0);
    await clock.tickAsync(1);
    assert.equal(asked.callCount, 1);
  });

  it('counts events whose time is over as failures of the cluster, unless others got through meanwhile', async () => {
    for (const [isAnswered, state] of [
      [false, 'OPEN'],
      [true, 'CLOSED'],
    ] as const) {
      const { queue, clusterState, sends } = over(async () => ({}), {
        deliveryTimeoutMs: 1_000,
        topic: 'hangs',
      });
      for (let n = 0; n < 5; n++) {
        void queue.publish(event(`${n}`));
        await clock.tickAsync(500);
        if (isAnswered) {
          const other = queue.publish(event(`other ${n}`, { topic: 'answers' }));
          await clock.tickAsync(10);
          for (const sent of sends.filter(({ topic }) => topic === 'answers')) sent.answer({ ok: true });
          assert.equal(await other, 'published');
        }
        await clock.tickAsync(1_100);
      }
      assert.equal(clusterState.state, state);
    }
  });

  it('knows what others have found out, where nothing got through since', async () => {
    const { queue, clusterState, sends } = over(async () => ({}));
    clusterState.silent('connection refused', performance.now());
    assert.equal(clusterState.state, 'OPEN');
    const probe = queue.publish(event('1'));
    assert.equal(await probe, 'dlq');
    await clock.tickAsync(1_000);
    const sinceMs = performance.now();
    const next = queue.publish(event('2'));
    await clock.tickAsync(10);
    sends[0]?.answer({ ok: true });
    assert.equal(await next, 'published');
    clusterState.silent('too late', sinceMs);
    assert.equal(clusterState.state, 'CLOSED');
  });

  it('leaves no timer behind when it is closed', async () => {
    const { queue } = over(hang);
    void queue.publish(event('1'));
    const closed = queue.close(0);
    await clock.tickAsync(1);
    await closed;
    assert.equal(clock.countTimers(), 0);
  });
});

import assert from 'node:assert/strict';
import { clusterPollMs } from '../../../src/publish/broker.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { away, event, fakeCluster, queueOver } from '../fake-cluster.ts';

describe('queue, when the cluster is back while retries wait', () => {
  const clock = clockOfEach();
  let isAway: boolean;
  beforeEach(() => {
    isAway = true;
  });

  function setUp(partitions: number) {
    const { broker, sends, reply } = fakeCluster(partitions);
    reply.current = () => (isAway ? away : undefined);
    const describe = () => (isAway ? Promise.reject(new Error('away')) : broker.describe());
    const under = queueOver({ ...broker, describe }, { maxInFlight: 2 });
    return { ...under, sends, reply };
  }
  const timeline = (sends: ReturnType<typeof setUp>['sends']) => sends.map(({ atMs, ids }) => [atMs, ids]);

  it('sends the batch that waits for its third retry at once, and what came behind it after it', async () => {
    const { queue, sends, counts } = setUp(1);
    const first = queue.publish(event('1'));
    await clock.tickAsync(3_100);
    const later = queue.publish(event('2'));
    isAway = false;
    await clock.tickAsync(clusterPollMs);
    assert.deepEqual(await Promise.all([first, later]), ['published', 'published']);
    const back = sends[3]?.atMs as number;
    assert.ok(back >= 3_100 && back <= 3_100 + clusterPollMs, `${back}`);
    assert.deepEqual(timeline(sends), [
      [0, ['1']],
      [1_000, ['1']],
      [3_000, ['1']],
      [back, ['1']],
      [back, ['2']],
    ]);
    assert.equal(counts.retried, 3);
  });

  it('sends those of many partitions, a batch each, as many at once as is allowed', async () => {
    const { queue, sends, reply } = setUp(20);
    const outcomes = Array.from({ length: 60 }, (_, id) =>
      queue.publish(event(String(id), { key: `k${id % 30}` })),
    );
    await clock.tickAsync(3_100);
    const before = sends.length;
    isAway = false;
    reply.current = undefined;
    await clock.tickAsync(clusterPollMs);
    const partitions = new Set(sends.slice(0, before).map(({ partition }) => partition)).size;
    assert.equal(sends.length - before, 2);
    for (let next = before; next < sends.length; next++) {
      sends[next]?.answer({ ok: true });
      await clock.tickAsync(0);
      assert.ok(sends.length - next - 1 <= 2);
    }
    assert.equal(sends.length - before, partitions, 'one batch each');
    assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(['published']));
  });

  it('spends no retry on a cluster that answers and stores nothing yet, and tries once in a wait', async () => {
    const { queue, sends, reply, failed } = setUp(1);
    reply.current = () => away;
    const outcome = queue.publish(event('1'));
    await clock.tickAsync(3_100);
    isAway = false;
    await clock.tickAsync(3_899);
    const between = sends[3]?.atMs as number;
    assert.ok(between > 3_100 && between <= 3_100 + clusterPollMs, `${between}`);
    assert.equal(sends.length, 4);
    await clock.tickAsync(1);
    assert.deepEqual(
      sends.map(({ atMs }) => atMs),
      [0, 1_000, 3_000, between, 7_000],
    );
    assert.equal(await outcome, 'dlq');
    assert.match(failed[0]?.failure.message ?? '', /after 3 retries/);
  });

  it('counts a try as the next retry that took as long as the wait', async () => {
    const { queue, sends, reply } = setUp(1);
    void queue.publish(event('1'));
    await clock.tickAsync(1_100);
    isAway = false;
    reply.current = undefined;
    await clock.tickAsync(clusterPollMs);
    assert.equal(sends.length, 3);
    await clock.tickAsync(5_000);
    sends[2]?.answer({ ok: false, failure: away });
    await clock.tickAsync(3_999);
    assert.equal(sends.length, 3);
    await clock.tickAsync(1);
    assert.equal(sends.length, 4);
  });

  it('lets a partition wait that is in trouble alone', async () => {
    const { queue, sends, reply } = setUp(2);
    isAway = false;
    reply.current = ({ partition }) => (partition === 0 ? away : undefined);
    for (let id = 0; id < 10; id++) void queue.publish(event(String(id)));
    for (let ms = 0; ms < 6_900; ms += 100) {
      await clock.tickAsync(100);
      void queue.publish(event(`later-${ms}`));
    }
    const tries = sends.filter(({ partition }) => partition === 0).map(({ atMs }) => atMs);
    assert.deepEqual(tries, [0, 1_000, 3_000]);
    assert.ok(sends.length > 20);
  });
});

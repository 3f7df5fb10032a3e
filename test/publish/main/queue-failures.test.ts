import assert from 'node:assert/strict';
import { notMadeFailure, partitionOfKey, type SendFailure } from '../../../src/publish/broker.ts';
import { createRetryPolicy, defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import {
  away,
  event,
  fakeCluster,
  forbidden,
  noAnswer,
  queueOver,
  tooLarge,
  usualRetry,
} from '../fake-cluster.ts';

const ok = { ok: true } as const;
const start = 1_700_000_000_000;
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => String(from + at));

describe('queue, when sends fail', () => {
  const clock = clockOfEach({ now: start });

  it('sends the same batch again after 1 s, 2 s and 4 s, later events behind it, then goes to the next tier', async () => {
    const { broker, sends, reply } = fakeCluster();
    reply.current = ({ ids: [first] }) => (first === '1' ? away : undefined);
    const { queue, failed, counts } = queueOver(broker);
    const outcomes = ids(1, 2).map((id) => queue.publish(event(id)));
    await clock.tickAsync(1);
    const later = queue.publish(event('3'));
    await clock.tickAsync(6_998);
    assert.deepEqual(
      sends.map(({ atMs, ids: sent }) => [atMs - start, sent]),
      [
        [0, ['1', '2']],
        [1_000, ['1', '2']],
        [3_000, ['1', '2']],
      ],
    );
    await clock.tickAsync(1);
    assert.deepEqual(await Promise.all([...outcomes, later]), ['dlq', 'dlq', 'published']);
    assert.deepEqual(
      sends.slice(3).map(({ atMs, ids: sent }) => [atMs - start, sent]),
      [
        [7_000, ['1', '2']],
        [7_000, ['3']],
      ],
    );
    assert.deepEqual(failed[0]?.failure, {
      ...away,
      message: 'Failed to send message after 3 retries: cannot reach Kafka',
    });
    assert.equal(failed[0]?.attempts, 4);
    assert.equal(failed[0]?.record, sends[0]?.records[0]);
    assert.deepEqual(counts, { published: 1, retried: 6, sendsFailed: Array(4).fill('retriable') });
  });

  it('a retry that succeeds publishes every event once', async () => {
    const { broker, sends } = fakeCluster();
    const { queue, failed, counts } = queueOver(broker);
    const outcomes = ids(1, 3).map((id) => queue.publish(event(id)));
    await clock.tickAsync(1);
    sends[0]?.answer({ ok: false, failure: noAnswer });
    await clock.tickAsync(1_000);
    sends[1]?.answer(ok);
    assert.deepEqual(await Promise.all(outcomes), Array(3).fill('published'));
    assert.deepEqual([failed.length, counts.published, counts.retried], [0, 3, 3]);
  });

  it('keeps the words "unknown outcome" through later failures, for the event may be stored', async () => {
    const { broker, reply } = fakeCluster();
    let sent = 0;
    reply.current = () => (sent++ === 0 ? noAnswer : away);
    const { queue, failed } = queueOver(broker);
    void queue.publish(event('1'));
    await clock.tickAsync(8_000);
    assert.deepEqual(
      [failed[0]?.failure.kind, failed[0]?.failure.cause],
      ['unknown_outcome', 'ECONNREFUSED'],
    );
  });

  it('a fatal failure goes to the next tier at once, as it is', async () => {
    const { broker, sends, reply } = fakeCluster();
    reply.current = () => forbidden;
    const { queue, failed } = queueOver(broker);
    assert.equal(sends.length, 0);
    const outcome = queue.publish(event('1'));
    await clock.tickAsync(1);
    assert.equal(await outcome, 'dlq');
    assert.deepEqual([failed[0]?.failure, failed[0]?.attempts, sends.length], [forbidden, 1, 1]);
  });

  it('with retries switched off there is one try and no word of retries', async () => {
    const { broker, reply } = fakeCluster();
    reply.current = () => away;
    const { queue, failed } = queueOver(broker, {
      retry: createRetryPolicy({ ...usualRetry, enabled: false }),
    });
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    assert.deepEqual([failed[0]?.failure, failed[0]?.attempts], [away, 1]);
  });

  it('halves a batch that is too large, in order; a single event that is too large goes to the next tier alone', async () => {
    const { broker, sends, reply } = fakeCluster();
    reply.current = ({ ids: sent }) => (sent.length > 2 || sent.includes('4') ? tooLarge : undefined);
    const { queue, failed } = queueOver(broker);
    const outcomes = ids(1, 6).map((id) => queue.publish(event(id)));
    await clock.tickAsync(1);
    assert.deepEqual(await Promise.all(outcomes), [
      ...Array(3).fill('published'),
      'dlq',
      'published',
      'published',
    ]);
    assert.deepEqual(
      sends.map(({ ids: sent }) => sent.join()),
      ['1,2,3,4,5,6', '1,2,3', '1,2', '3', '4,5,6', '4,5', '4', '5', '6'],
    );
    assert.deepEqual([failed.length, failed[0]?.failure], [1, tooLarge]);
    assert.equal(sends.at(-1)?.atMs, start, 'nobody waits for a split');
  });

  it('an adapter that throws against its promise costs no event and says nothing of the payload', async () => {
    const { broker } = fakeCluster();
    const throwing = { ...broker, send: () => Promise.reject(new TypeError('john@example.com')) };
    const { queue, failed } = queueOver(throwing, {
      retry: createRetryPolicy({ ...usualRetry, enabled: false }),
    });
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    assert.deepEqual([failed[0]?.failure.cause, failed[0]?.failure.kind], ['TypeError', 'unknown_outcome']);
    assert.ok(!JSON.stringify(failed).includes('john@example.com'));
  });

  it('an adapter that throws at once, and one that cannot say the number of partitions, cost no event', async () => {
    const { broker } = fakeCluster();
    const throwing = {
      ...fakeCluster().broker,
      partitionsFor: () => Promise.reject(new Error('away')),
      send: () => {
        throw new RangeError('away');
      },
    };
    const { queue, failed } = queueOver(throwing, {
      retry: createRetryPolicy({ ...usualRetry, enabled: false }),
    });
    void queue.publish(event('1'));
    void queue.publish(event('2'));
    await clock.tickAsync(1);
    assert.deepEqual(
      failed.map(({ failure }) => failure.cause),
      ['RangeError', 'RangeError'],
    );
    assert.equal(broker.name, 'fake');
  });

  it('a tier that rejects against its promise makes the event lost, not the process', async () => {
    const { broker, reply } = fakeCluster();
    reply.current = () => forbidden;
    const { queue, lines } = queueOver(broker, { next: () => Promise.reject(new Error('john@example.com')) });
    const outcome = queue.publish(event('1'));
    await clock.tickAsync(1);
    assert.equal(await outcome, 'lost');
    assert.deepEqual(lines, ['error a tier violated its contract']);
  });

  describe('delivery deadline', () => {
    it('ends what waits, what is under way and what is being retried when its time is over, not before', async () => {
      const { broker, sends } = fakeCluster(3);
      const { queue, failed } = queueOver(broker, {
        deliveryTimeoutMs: 10_000,
        retry: createRetryPolicy({ ...usualRetry, initialIntervalMs: 9_000 }),
      });
      const at = (partition: number) =>
        ids(1, 50).find((key) => partitionOfKey(key, 3) === partition) as string;
      for (const partition of [0, 1]) void queue.publish(event(`sent${partition}`, { key: at(partition) }));
      await clock.tickAsync(1);
      void queue.publish(event('waits0', { key: at(0) }));
      assert.equal(sends.length, 2);
      sends.find(({ ids: sent }) => sent[0] === 'sent1')?.answer({ ok: false, failure: away });
      await clock.tickAsync(5_000);
      void queue.publish(event('later0', { key: at(0) }));
      await clock.tickAsync(4_000 + 998);
      assert.equal(failed.length, 0);
      await clock.tickAsync(1);
      const ended = failed.map(({ event: one, attempts, failure }) => [
        one.eventId,
        attempts,
        failure.kind,
        failure.cause,
      ]);
      assert.deepEqual(ended.sort(), [
        ['sent0', 1, 'unknown_outcome', 'TimeoutException'],
        ['sent1', 2, 'unknown_outcome', 'ECONNREFUSED'],
      ]);
      await clock.tickAsync(1);
      assert.deepEqual(
        failed.slice(2).map(({ event: one, attempts, failure }) => [one.eventId, attempts, failure.kind]),
        [['waits0', 0, 'retriable']],
      );
      assert.match(failed[2]?.failure.message ?? '', /^not acknowledged within 10000 ms/);
      await clock.tickAsync(4_998);
      assert.equal(failed.length, 3);
      await clock.tickAsync(2);
      assert.equal(failed[3]?.event.eventId, 'later0');
      assert.equal(queue.state().events, 0);
    });

    it('what is over is not sent again, and the answer that comes late changes nothing', async () => {
      const { broker, sends } = fakeCluster();
      const { queue, failed, counts } = queueOver(broker, { deliveryTimeoutMs: 1_000 });
      const outcome = queue.publish(event('1'));
      await clock.tickAsync(1_000);
      assert.equal(await outcome, 'dlq');
      sends[0]?.answer({ ok: false, failure: away });
      await clock.tickAsync(20_000);
      assert.deepEqual([sends.length, failed.length, counts.published], [1, 1, 0]);
    });

    it('is that of its first event for a whole batch that was sent: the broker knows it again by its events', async () => {
      const { broker, sends } = fakeCluster();
      const { queue, failed } = queueOver(broker, { deliveryTimeoutMs: 10_000 });
      void queue.publish(event('1'));
      await clock.tickAsync(1);
      void queue.publish(event('2'));
      await clock.tickAsync(4_000);
      void queue.publish(event('3'));
      sends[0]?.answer(ok);
      await clock.tickAsync(6_500);
      assert.deepEqual(sends[1]?.ids, ['2', '3']);
      assert.deepEqual(
        failed.map(({ event: one }) => one.eventId),
        ['2', '3'],
      );
    });

    it('holds while the number of partitions is not known', async () => {
      const { broker } = fakeCluster();
      const { queue, failed } = queueOver({ ...broker, partitionsFor: () => new Promise(() => {}) });
      const outcome = queue.publish(event('1'));
      await clock.tickAsync(29_999);
      assert.equal(failed.length, 0);
      await clock.tickAsync(1);
      assert.equal(await outcome, 'dlq');
    });
  });

  describe('breaker', () => {
    function outage(partitions = 1) {
      const cluster = fakeCluster(partitions);
      const failure: { current: SendFailure | undefined } = { current: away };
      cluster.reply.current = () => failure.current;
      return { ...cluster, failure, ...queueOver(cluster.broker, { breaker: defaultBreaker }) };
    }

    it('opens with the fifth failed send, and everything that waits goes to the next tier', async () => {
      const { queue, clusterState, failed, sends } = outage();
      const head = queue.publish(event('1'));
      await clock.tickAsync(1);
      const waiting = ids(2, 4).map((id) => queue.publish(event(id)));
      await clock.tickAsync(6_998);
      assert.deepEqual([sends.length, failed.length, clusterState.state], [3, 0, 'CLOSED']);
      await clock.tickAsync(1);
      assert.equal(clusterState.state, 'OPEN');
      assert.deepEqual(await Promise.all([head, ...waiting]), Array(4).fill('dlq'));
      assert.equal(sends.length, 5);
      assert.equal(queue.state().events, 0);
    });

    it('while it is open, new events go to the next tier at once: one event a second tests the cluster, once', async () => {
      const { queue, clusterState, failed, sends } = outage();
      for (const id of ids(1, 600)) void queue.publish(event(id));
      await clock.tickAsync(7_000);
      assert.equal(clusterState.state, 'OPEN');
      const before = { sends: sends.length, failed: failed.length };
      void queue.publish(event('refused'));
      assert.equal(failed.length, before.failed + 1);
      assert.equal(failed.at(-1)?.failure.message, 'Circuit breaker is OPEN');
      assert.equal(failed.at(-1)?.attempts, 0);
      await clock.tickAsync(1_000);
      void queue.publish(event('probe'));
      void queue.publish(event('refused too'));
      await clock.tickAsync(900);
      assert.deepEqual(
        sends.slice(before.sends).map(({ ids: sent }) => sent),
        [['probe']],
      );
      const probe = failed.find(({ event: one }) => one.eventId === 'probe');
      assert.deepEqual([probe?.attempts, probe?.failure.message], [1, 'cannot reach Kafka']);
      assert.equal(clusterState.state, 'OPEN');
    });

    for (const [title, answer, outcome] of [
      ['fails', { ok: false, failure: away }, 'dlq'],
      ['gets through', { ok: true }, 'published'],
    ] as const) {
      it(`events of the probe's key stay behind it, which ${title}`, async () => {
        const { queue, clusterState, reply, failed, sends } = outage();
        for (const id of ids(1, 600)) void queue.publish(event(id));
        await clock.tickAsync(8_000);
        reply.current = undefined;
        const before = { sends: sends.length, failed: failed.length };
        const outcomes = ['probe', 'second', 'third'].map((id) => queue.publish(event(id, { key: 'one' })));
        await clock.tickAsync(20);
        void queue.publish(event('other key'));
        void queue.publish(event('other topic', { key: 'one', topic: 'other' }));
        const refused = failed.slice(before.failed).map(({ event: one }) => one.eventId);
        assert.deepEqual(refused, ['other key', 'other topic'], 'at once');
        outcomes.push(queue.publish(event('fourth', { key: 'one' })));

        reply.current = () => (answer.ok ? undefined : answer.failure);
        sends[before.sends]?.answer(answer);
        await clock.tickAsync(20);
        assert.deepEqual(await Promise.all(outcomes), Array(4).fill(outcome));
        const all = ['probe', 'second', 'third', 'fourth'];
        const order = answer.ok
          ? sends.slice(before.sends).flatMap((send) => send.ids)
          : failed.slice(before.failed + 2).map(({ event: one }) => one.eventId);
        assert.deepEqual(order, all);
        assert.equal(clusterState.state, answer.ok ? 'CLOSED' : 'OPEN');
        void queue.publish(event('fifth', { key: 'one' }));
        assert.equal(
          failed.at(-1)?.event.eventId === 'fifth',
          !answer.ok,
          'nobody waits for a probe that is over',
        );
      });
    }

    it('closes with the first probe that gets through', async () => {
      const { queue, clusterState, failure } = outage();
      for (const id of ids(1, 600)) void queue.publish(event(id));
      await clock.tickAsync(8_000);
      failure.current = undefined;
      const probe = queue.publish(event('probe'));
      assert.equal(clusterState.state, 'HALF-OPEN');
      await clock.tickAsync(0);
      assert.equal(await probe, 'published');
      assert.equal(clusterState.state, 'CLOSED');
      const next = queue.publish(event('next'));
      await clock.tickAsync(5);
      assert.equal(await next, 'published');
    });

    it('a short outage that the retries outlast does not open it, however many partitions there are', async () => {
      const { queue, clusterState, failed, failure } = outage(12);
      const outcomes = ids(1, 100).map((id) => queue.publish(event(id)));
      await clock.tickAsync(6_000);
      assert.equal(clusterState.state, 'CLOSED');
      failure.current = undefined;
      await clock.tickAsync(1_000);
      assert.deepEqual(await Promise.all(outcomes), Array(100).fill('published'));
      assert.equal(failed.length, 0);
    });

    it('a probe that ends without an answer makes room for another', async () => {
      const { queue, clusterState, sends, reply } = outage();
      for (const id of ids(1, 600)) void queue.publish(event(id));
      await clock.tickAsync(8_000);
      reply.current = undefined;
      void queue.publish(event('probe'));
      void queue.finish(0);
      await clock.tickAsync(0);
      assert.equal(clusterState.state, 'OPEN');
      sends.at(-1)?.answer({ ok: false, failure: noAnswer });
      reply.current = () => undefined;
      await clock.tickAsync(1_000);
      const second = queue.publish(event('probe 2'));
      await clock.tickAsync(5);
      assert.equal(await second, 'published');
    });
  });

  for (const failure of [
    notMadeFailure('TypeError'),
    { kind: 'fatal', cause: 'INVALID_RECORD', message: 'no such record' } as const,
  ])
    it(`takes a batch apart in which one record is at fault (${failure.cause}): that one alone fails`, async () => {
      const { broker, sends, reply } = fakeCluster();
      reply.current = ({ ids: sent }) => (sent.includes('5') ? failure : undefined);
      const { queue, failed } = queueOver(broker, { breaker: { ...defaultBreaker, threshold: 1 } });
      const outcomes = ids(1, 9).map((id) => queue.publish(event(id, { key: 'k' })));
      await clock.tickAsync(50);
      const expected = ids(1, 9).map((id) => (id === '5' ? 'dlq' : 'published'));
      assert.deepEqual(await Promise.all(outcomes), expected);
      assert.deepEqual(
        failed.map((one) => [one.event.eventId, one.failure.cause]),
        [['5', failure.cause]],
      );
      const stored = sends.filter(({ ids: sent }) => !sent.includes('5')).flatMap(({ ids: sent }) => sent);
      assert.deepEqual(stored, ['1', '2', '3', '4', '6', '7', '8', '9']);
    });
});

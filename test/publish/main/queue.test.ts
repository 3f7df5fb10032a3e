import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { partitionOfKey } from '../../../src/publish/broker.ts';
import type { FailedEvent } from '../../../src/publish/tier.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { away, event, fakeCluster, queueOver } from '../fake-cluster.ts';

const ok = { ok: true } as const;
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => String(from + at));

describe('queue', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });

  it('sends the first events of an idle partition together at the end of the turn', async () => {
    const { broker, sends } = fakeCluster();
    const { queue, counts } = queueOver(broker);
    const outcomes = ['1', '2', '3'].map((id) => queue.publish(event(id)));
    assert.equal(sends.length, 0);
    await clock.tickAsync(0);
    await clock.tickAsync(0);
    assert.deepEqual(
      sends.map(({ topic, partition, ids: sent }) => [topic, partition, sent]),
      [['main', 0, ['1', '2', '3']]],
    );
    sends[0]?.answer(ok);
    assert.deepEqual(await Promise.all(outcomes), ['published', 'published', 'published']);
    assert.equal(counts.published, 3);
    assert.deepEqual(queue.state(), { events: 0, bytes: 0, overflows: 0 });
  });

  it('stamps publishedAt when the record is handed over, the same bytes at every try', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    void queue.publish(event('1', { topic: 'other' }));
    await clock.tickAsync(0);
    await clock.tickAsync(0);
    void queue.publish(event('2', { topic: 'other' }));
    await clock.tickAsync(40);
    sends[0]?.answer({ ok: false, failure: away });
    await clock.tickAsync(1_000);
    const [first, again] = sends.map(({ records }) => records[0]);
    assert.equal(again, first);
    assert.equal(first?.value.toString(), '{"eventId":"1","publishedAt":"2023-11-14T22:13:20.000Z"}');
    assert.equal(first?.timestamp, 1_700_000_000_000);
    sends[1]?.answer(ok);
    await clock.tickAsync(5);
    assert.equal(
      sends[2]?.records[0]?.value.toString(),
      '{"eventId":"2","publishedAt":"2023-11-14T22:13:21.040Z"}',
    );
  });

  it('has one send a partition under way; what comes meanwhile shares the next', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    for (const id of ids(2, 4)) void queue.publish(event(id));
    await clock.tickAsync(100);
    assert.equal(sends.length, 1);
    sends[0]?.answer(ok);
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['2', '3', '4'], 'the first of them is older than the linger time');
  });

  it('waits for company until the first event is lingerMs old where the partition was busy', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker, { batch: { maxEvents: 3, maxBytes: 900_000, lingerMs: 5 } });
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    void queue.publish(event('2'));
    sends[0]?.answer(ok);
    await clock.tickAsync(4);
    assert.equal(sends.length, 1);
    void queue.publish(event('3'));
    await clock.tickAsync(1);
    assert.deepEqual(sends[1]?.ids, ['2', '3']);
    for (const id of ids(4, 5)) void queue.publish(event(id));
    sends[1]?.answer(ok);
    await clock.tickAsync(4);
    assert.equal(sends.length, 2);
    void queue.publish(event('6'));
    await clock.tickAsync(0);
    assert.deepEqual(sends[2]?.ids, ['4', '5', '6'], 'a full batch waits for nobody');
  });

  it('sends a steady stream lingerMs at a time, and what comes after a rest at once', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    const arrive = async (id: string): Promise<void> => {
      void queue.publish(event(id));
      await clock.tickAsync(1);
      sends.at(-1)?.answer(ok);
    };
    for (const id of ids(1, 12)) await arrive(id);
    await clock.tickAsync(5);
    sends.at(-1)?.answer(ok);
    assert.deepEqual(
      sends.map(({ ids: sent }) => sent.length),
      [1, 5, 5, 1],
    );
    void queue.publish(event('13'));
    await clock.tickAsync(0);
    assert.equal(sends.length, 4, 'no rest of lingerMs yet');
    await clock.tickAsync(5);
    sends.at(-1)?.answer(ok);
    await clock.tickAsync(5);
    void queue.publish(event('14'));
    await clock.tickAsync(0);
    assert.deepEqual(sends[5]?.ids, ['14']);
  });

  it('finishing nothing is over at once, and takes nothing from events that come right behind it', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    const finished = queue.finish(1_000);
    const outcome = queue.publish(event('1')); // As a second listener of the signal that svc finishes at.
    await finished;
    await clock.tickAsync(5);
    assert.deepEqual(sends[0]?.ids, ['1']);
    sends[0]?.answer(ok);
    assert.equal(await outcome, 'published');
  });

  it('finishing sends at once what waits for company, and goes on taking events', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    void queue.publish(event('2'));
    sends[0]?.answer(ok);
    await clock.tickAsync(0);
    assert.equal(sends.length, 1);
    let finished = 0;
    void queue.finish(1_000).then(() => finished++);
    void queue.finish(1_000).then(() => finished++);
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['2']);
    assert.equal(finished, 0);
    sends[1]?.answer(ok);
    await clock.tickAsync(0);
    assert.equal(finished, 2);
    void queue.publish(event('3'));
    await clock.tickAsync(5);
    assert.deepEqual(sends[2]?.ids, ['3']);
  });

  it('puts up to batch.maxEvents events into a send', async () => {
    const { broker, sends, reply } = fakeCluster();
    reply.current = () => undefined;
    const { queue } = queueOver(broker);
    for (const id of ids(1, 501)) void queue.publish(event(id));
    await clock.tickAsync(10);
    assert.deepEqual(
      sends.map(({ ids: sent }) => sent.length),
      [500, 1],
    );
    assert.deepEqual(
      sends.flatMap(({ ids: sent }) => sent),
      ids(1, 501),
    );
  });

  it('puts up to batch.maxBytes bytes into a send, and a larger event alone', async () => {
    const sized = (id: string, bytes: number) => event(id, { key: 'k', after: 'x'.repeat(bytes - 101) });
    const { broker, sends, reply } = fakeCluster();
    reply.current = () => undefined;
    const { queue } = queueOver(broker, { batch: { maxEvents: 500, maxBytes: 1_000, lingerMs: 5 } });
    void queue.publish(sized('1', 500));
    const { bytes } = queue.state();
    const missing = 1_000 - 2 * bytes;
    void queue.publish(sized('2', 500 + missing));
    assert.equal(queue.state().bytes, 1_000);
    void queue.publish(sized('3', 500));
    void queue.publish(sized('4', 501 + missing));
    void queue.publish(sized('5', 2_000));
    await clock.tickAsync(20);
    assert.deepEqual(
      sends.map(({ ids: sent }) => sent),
      [['1', '2'], ['3'], ['4'], ['5']],
    );
  });

  it('has maxInFlight sends under way over all partitions; the others get their turn in order', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker);
    for (const id of ids(1, 10)) void queue.publish(event(id, { topic: `t${id}` }));
    await clock.tickAsync(1);
    assert.equal(sends.length, 8);
    sends[3]?.answer(ok);
    await clock.tickAsync(0);
    assert.deepEqual(
      sends.map(({ topic }) => topic),
      ids(1, 9).map((id) => `t${id}`),
    );
  });

  it('takes buffer.maxEvents events; one more goes to the next tier at once and is counted', async () => {
    const { broker } = fakeCluster();
    const { queue, failed, lines } = queueOver(broker, { buffer: { maxEvents: 3, maxBytes: 1_000_000 } });
    for (const id of ids(1, 3)) void queue.publish(event(id));
    assert.equal(failed.length, 0);
    const outcomes = ids(4, 5).map((id) => queue.publish(event(id)));
    assert.deepEqual(
      failed.map(({ event: one, attempts, failure, topic }) => [one.eventId, attempts, failure.cause, topic]),
      [
        ['4', 0, 'BufferFull', 'main'],
        ['5', 0, 'BufferFull', 'main'],
      ],
    );
    assert.match(failed[0]?.record.value.toString() ?? '', /"publishedAt":"2023-11-14T22:13:20.000Z"/);
    assert.deepEqual(await Promise.all(outcomes), ['dlq', 'dlq']);
    assert.equal(queue.state().overflows, 2);
    assert.equal(lines.filter((line) => line.startsWith('warn')).length, 1, 'one line, not one an event');
  });

  it('takes buffer.maxBytes bytes', async () => {
    const { broker } = fakeCluster();
    const one = queueOver(broker).queue;
    void one.publish(event('1'));
    const { bytes } = one.state();
    const { queue, failed } = queueOver(broker, { buffer: { maxEvents: 100, maxBytes: 2 * bytes } });
    for (const id of ids(1, 2)) void queue.publish(event(id));
    assert.deepEqual([queue.state().bytes, failed.length], [2 * bytes, 0]);
    void queue.publish(event('3'));
    assert.equal(failed.length, 1);
  });

  it('places events by their key, each partition in a send of its own', async () => {
    const { broker, sends, reply } = fakeCluster(6);
    reply.current = () => undefined;
    const { queue } = queueOver(broker);
    for (const id of ids(1, 60)) void queue.publish(event(id));
    await clock.tickAsync(10);
    assert.equal(sends.length, 6);
    for (const { partition, records } of sends) {
      for (const { key } of records) assert.equal(partitionOfKey(key as string, 6), partition);
    }
  });

  it('sends one by one while the number of partitions is unknown, and in batches as soon as it is', async () => {
    const { broker, sends, partitions } = fakeCluster('unknown');
    const { queue } = queueOver(broker);
    for (const id of ids(1, 5)) void queue.publish(event(id));
    await clock.tickAsync(1);
    assert.deepEqual(
      sends.map(({ partition, ids: sent }) => [partition, sent]),
      [[undefined, ['1']]],
    );
    sends[0]?.answer(ok);
    await clock.tickAsync(1);
    assert.deepEqual(sends[1]?.ids, ['2']);
    void queue.publish(event('6'));
    partitions.current = 1;
    sends[1]?.answer(ok);
    await clock.tickAsync(1);
    assert.deepEqual([sends[2]?.partition, sends[2]?.ids], [0, ids(3, 6)]);
  });

  it('closing sends at once what waits, takes nothing more, and resolves when all is acknowledged', async () => {
    const { broker, sends } = fakeCluster();
    const { queue, failed } = queueOver(broker);
    const first = queue.publish(event('1'));
    await clock.tickAsync(1);
    const second = queue.publish(event('2'));
    let closed = false;
    void queue.close(10_000).then(() => (closed = true));
    assert.equal(await queue.publish(event('3')), 'dlq');
    assert.equal(failed[0]?.failure.message, 'svc has stopped');
    sends[0]?.answer(ok);
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['2']);
    assert.equal(closed, false);
    sends[1]?.answer(ok);
    await clock.tickAsync(0);
    assert.equal(closed, true);
    assert.deepEqual(await Promise.all([first, second]), ['published', 'published']);
  });

  it('what is not acknowledged when three quarters of the closing time are over goes to the next tier', async () => {
    const { broker, sends } = fakeCluster();
    const { queue, failed } = queueOver(broker);
    const outcomes: Promise<Outcome>[] = [queue.publish(event('1'))];
    await clock.tickAsync(1);
    outcomes.push(queue.publish(event('2')));
    const closed = queue.close(4_000);
    await clock.tickAsync(2_999);
    assert.equal(failed.length, 0);
    await clock.tickAsync(1);
    await closed;
    assert.deepEqual(await Promise.all(outcomes), ['dlq', 'dlq']);
    assert.deepEqual(
      failed.map(({ event: one, attempts, failure }) => [one.eventId, attempts, failure.kind, failure.cause]),
      [
        ['1', 1, 'unknown_outcome', 'Shutdown'],
        ['2', 0, 'retriable', 'Shutdown'],
      ],
    );
    sends[0]?.answer(ok);
    await clock.tickAsync(10);
    assert.equal(failed.length, 2, 'a late answer changes nothing');
    assert.equal(sends.length, 1);
  });

  it('of a long closing time the next tiers have the last two seconds', async () => {
    const { broker } = fakeCluster();
    let stored = (_outcome: Outcome): void => {};
    const { queue } = queueOver(broker, { next: () => new Promise((resolve) => (stored = resolve)) });
    void queue.publish(event('1'));
    let closed = false;
    void queue.close(20_000).then(() => (closed = true));
    await clock.tickAsync(17_999);
    assert.equal(queue.state().events, 1);
    await clock.tickAsync(1);
    assert.equal(queue.state().events, 0);
    await clock.tickAsync(1_000);
    assert.equal(closed, false, 'the tier has not answered');
    stored('backup');
    await clock.tickAsync(0);
    assert.equal(closed, true);
  });

  it('takeOver hands out what is not acknowledged, at once and once, and then each event that still comes', async () => {
    const { broker, sends } = fakeCluster();
    const { queue, failed } = queueOver(broker);
    void queue.publish(event('1'));
    await clock.tickAsync(1);
    void queue.publish(event('2'));
    void queue.publish(event('3', { topic: 'other' }));
    const late: FailedEvent[] = [];
    const storeLate = (one: FailedEvent) => late.push(one) === 1;
    const left = queue.takeOver(storeLate);
    assert.deepEqual(
      left.map(({ event: one, attempts, failure, topic }) => [one.eventId, attempts, failure.kind, topic]),
      [
        ['1', 1, 'unknown_outcome', 'main'],
        ['2', 0, 'retriable', 'main'],
        ['3', 0, 'retriable', 'other'],
      ],
    );
    assert.equal(left[0]?.record, sends[0]?.records[0]);
    assert.equal(
      left[1]?.record.value.toString(),
      '{"eventId":"2","publishedAt":"2023-11-14T22:13:20.001Z"}',
    );
    assert.deepEqual(queue.takeOver(storeLate), []);
    sends[0]?.answer(ok);
    await clock.tickAsync(10);
    assert.equal(failed.length, 0);
    const [four, five] = [queue.publish(event('4')), queue.publish(event('5', { topic: 'other' }))];
    assert.deepEqual(
      late.map(({ event: one, attempts, failure, topic, record }) => [
        one.eventId,
        attempts,
        failure.cause,
        topic,
        record.key,
      ]),
      [
        ['4', 0, 'Shutdown', 'main', 'k-4'],
        ['5', 0, 'Shutdown', 'other', 'k-5'],
      ],
    );
    assert.deepEqual([await four, await five], ['backup', 'lost']);
    assert.equal(failed.length, 0);
  });
});

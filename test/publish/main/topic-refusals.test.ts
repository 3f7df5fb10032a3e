import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { createTopicRefusals } from '../../../src/publish/main/cluster-state.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { event, fakeCluster, forbidden, queueOver } from '../fake-cluster.ts';

const missing: SendFailure = {
  kind: 'retriable',
  cause: 'UNKNOWN_TOPIC_OR_PARTITION',
  message: 'topic "main" does not exist',
};

describe('topics that refuse their events', () => {
  const clock = clockOfEach();

  it('are said at the first refusal, tried a few times for all that wait, and then once for each event', async () => {
    const { broker, sends, reply } = fakeCluster('unknown');
    reply.current = () => missing;
    const { queue, failed, lines } = queueOver(broker);
    for (const id of ['1', '2', '3']) void queue.publish(event(id));
    await clock.tickAsync(10);
    const warnings = () => lines.filter((line) => line.startsWith('warn'));
    assert.deepEqual(warnings(), [
      'warn events wait for their topic, and will go to the next tier soon: topic "main" does not exist',
    ]);
    assert.equal(queue.refusals(), 'events of a topic are refused: topic "main" does not exist');
    assert.equal(queue.isRefused?.(event('4')), true);
    assert.equal(queue.isRefused?.(event('4', { topic: 'other' })), false);
    await clock.tickAsync(7_010);
    assert.deepEqual(
      failed.map(({ event: { eventId }, attempts, failure }) => [eventId, attempts, failure.message]),
      [
        ['1', 4, 'Failed to send message after 3 retries: topic "main" does not exist'],
        ['2', 0, 'topic "main" does not exist'],
        ['3', 0, 'topic "main" does not exist'],
      ],
    );
    assert.equal(queue.isRefused?.(event('4')), false);
    void queue.publish(event('4'));
    await clock.tickAsync(10);
    assert.deepEqual([failed.length, sends.length, warnings().length], [4, 5, 1]);

    reply.current = () => undefined;
    void queue.publish(event('5'));
    await clock.tickAsync(10);
    assert.equal(queue.refusals(), undefined);
    assert.ok(lines.includes('info topic "main" takes events again'));
  });

  it('of which one partition is refused keep those of others', async () => {
    const { broker, reply } = fakeCluster(2);
    reply.current = ({ partition }) => (partition === 0 ? missing : undefined);
    const { queue, failed, counts } = queueOver(broker);
    for (let id = 0; id < 20; id++) void queue.publish(event(String(id)));
    await clock.tickAsync(7_100);
    assert.ok(failed.length > 0 && counts.published > 0);
    assert.equal(failed.length + counts.published, 20);
  });

  it('give their reason to what is ended before it was sent', async () => {
    const { broker, reply } = fakeCluster('unknown');
    reply.current = () => missing;
    const { queue, failed } = queueOver(broker);
    for (const id of ['1', '2']) void queue.publish(event(id));
    await clock.tickAsync(10);
    const closed = queue.close(1_000);
    await clock.tickAsync(1_000);
    await closed;
    const told = 'svc had to stop before the event was acknowledged; last: topic "main" does not exist';
    assert.deepEqual(
      failed.map(({ failure: { cause, message, endedBy } }) => [cause, message, endedBy]),
      [1, 2].map(() => ['UNKNOWN_TOPIC_OR_PARTITION', told, 'shutdown']),
    );
  });

  it('end at once what waits, where this user has no right to them', async () => {
    const { broker, sends, reply } = fakeCluster('unknown');
    reply.current = () => forbidden;
    const { queue, failed, lines } = queueOver(broker);
    for (const id of ['1', '2', '3']) void queue.publish(event(id));
    await clock.tickAsync(10);
    assert.deepEqual([failed.map(({ event: { eventId } }) => eventId), sends.length], [['1', '2', '3'], 1]);
    assert.match(queue.refusals() ?? '', /may not write/);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('warn')),
      [],
    );
  });

  it('are no news five minutes after the last refusal, and a thousand of them are remembered', () => {
    const refusals = createTopicRefusals();
    for (let number = 0; number <= 1_000; number++)
      assert.equal(refusals.refused(`topic ${number}`, missing, false), true);
    assert.equal(refusals.of('topic 0'), undefined);
    assert.equal(refusals.refused('topic 1', missing, false), false);
    assert.match(refusals.state() ?? '', /; so are 999 other topics$/);
    clock.tick(300_000);
    assert.ok(refusals.state());
    clock.tick(1);
    assert.equal(refusals.state(), undefined);
  });
});

import assert from 'node:assert/strict';
import { clockOfEach } from '../../support/fake-time.ts';
import { event, fakeCluster, queueOver } from '../fake-cluster.ts';

const crowdLingerMs = 2;
const crowdEvents = 10;
const aloneLingerMs = 5;
const worthwhileBytes = 131_072;
const worthwhileEvents = 100;

const ok = { ok: true } as const;
const batch = { maxEvents: 500, maxBytes: 900_000, lingerMs: 20 };

describe('queue: how long an event waits for company', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });

  /** A queue whose only partition has just sent this many events. */
  async function justSent(events: number, options: Partial<typeof batch & { isAwaited: boolean }> = {}) {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker, { batch: { ...batch, ...options } });
    for (let id = 0; id < events; id++) void queue.publish(event(`first-${id}`));
    await clock.tickAsync(1);
    assert.equal(sends.length, 1);
    sends[0]?.answer(ok);
    await clock.tickAsync(0);
    return { queue, sends };
  }

  it('lingerMs where the last send was of several events', async () => {
    const { queue, sends } = await justSent(2);
    void queue.publish(event('1'));
    await clock.tickAsync(19);
    void queue.publish(event('2'));
    assert.equal(sends.length, 1);
    await clock.tickAsync(1);
    assert.deepEqual(sends[1]?.ids, ['1', '2']);
  });

  it('5 ms where the last send was of one event, as of somebody who awaits each', async () => {
    assert.equal(aloneLingerMs, 5);
    const { queue, sends } = await justSent(1);
    void queue.publish(event('1'));
    await clock.tickAsync(4);
    assert.equal(sends.length, 1);
    await clock.tickAsync(1);
    assert.deepEqual(sends[1]?.ids, ['1']);
  });

  it('lingerMs where that is less', async () => {
    const { queue, sends } = await justSent(1, { lingerMs: 3 });
    void queue.publish(event('1'));
    await clock.tickAsync(2);
    assert.equal(sends.length, 1);
    await clock.tickAsync(1);
    assert.deepEqual(sends[1]?.ids, ['1']);
  });

  it('not at all after a rest of that time, which is 5 ms behind a send of one event', async () => {
    const { queue, sends } = await justSent(1);
    await clock.tickAsync(4);
    void queue.publish(event('1'));
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['1'], 'sent 5 ms ago: 1 in the first turn, 4 since');
  });

  it('until a batch is worth a send: then to the end of the turn, not within the call', async () => {
    assert.equal(worthwhileEvents, 100);
    const { queue, sends } = await justSent(2);
    for (let id = 1; id < worthwhileEvents; id++) void queue.publish(event(String(id)));
    await clock.tickAsync(1);
    assert.equal(sends.length, 1, 'one too few');
    for (const id of ['100', '101']) void queue.publish(event(id));
    assert.equal(sends.length, 1);
    await clock.tickAsync(0);
    assert.equal(sends[1]?.ids.length, 101);
  });

  it('until a batch has bytes that are worth a send', async () => {
    const sized = (id: string, bytes: number) => event(id, { key: 'k', after: 'x'.repeat(bytes) });
    const { queue, sends } = await justSent(2);
    void queue.publish(sized('1', 65_536));
    const { bytes } = queue.state();
    void queue.publish(sized('2', 65_535 + (worthwhileBytes - 2 * bytes)));
    assert.equal(queue.state().bytes, worthwhileBytes - 1);
    await clock.tickAsync(1);
    assert.equal(sends.length, 1, 'one too few');
    void queue.publish(event('3'));
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['1', '2', '3']);
  });

  it('not longer than a smaller batch.maxEvents lets it, which sends within the turn', async () => {
    const { queue, sends } = await justSent(2, { maxEvents: 3 });
    for (const id of ['1', '2', '3']) void queue.publish(event(id));
    assert.deepEqual(sends[1]?.ids, ['1', '2', '3']);
  });

  it('where callers wait: not at all behind a send of 9 events, 2 ms behind one of 10', async () => {
    assert.deepEqual([crowdEvents, crowdLingerMs], [10, 2]);
    const few = await justSent(crowdEvents - 1, { isAwaited: true });
    void few.queue.publish(event('1'));
    await clock.tickAsync(0);
    assert.deepEqual(few.sends[1]?.ids, ['1']);

    const crowd = await justSent(crowdEvents, { isAwaited: true });
    void crowd.queue.publish(event('1'));
    await clock.tickAsync(1);
    void crowd.queue.publish(event('2'));
    assert.equal(crowd.sends.length, 1);
    await clock.tickAsync(1);
    assert.deepEqual(crowd.sends[1]?.ids, ['1', '2']);
  });

  it('where callers wait: not longer than lingerMs', async () => {
    const { queue, sends } = await justSent(crowdEvents, { isAwaited: true, lingerMs: 0 });
    void queue.publish(event('1'));
    await clock.tickAsync(0);
    assert.deepEqual(sends[1]?.ids, ['1']);
  });

  it('where callers wait: what they publish again when a send is stored joins the events behind it', async () => {
    const { broker, sends } = fakeCluster();
    const { queue } = queueOver(broker, { batch: { ...batch, isAwaited: true } });
    const caller = async (id: string): Promise<void> => {
      await queue.publish(event(id));
      void queue.publish(event(`${id} again`));
    };
    for (let id = 0; id < crowdEvents; id++) void caller(String(id));
    await clock.tickAsync(1);
    void queue.publish(event('behind'));
    await clock.tickAsync(crowdLingerMs);
    sends[0]?.answer(ok);
    await clock.tickAsync(0);
    assert.equal(sends.length, 2);
    assert.equal(sends[1]?.ids[0], 'behind');
    assert.equal(sends[1]?.ids.length, crowdEvents + 1);
  });

  it('finishing and closing wait for nothing', async () => {
    const { queue, sends } = await justSent(2);
    for (let id = 0; id < worthwhileEvents; id++) void queue.publish(event(String(id)));
    void queue.close(1_000);
    assert.equal(sends[1]?.ids.length, worthwhileEvents);
    sends[1]?.answer(ok);
    await clock.tickAsync(0);
    assert.equal(sends.length, 2, 'once');
  });
});

import assert from 'node:assert/strict';
import type { Broker, SendFailure, SendResult } from '../../../../src/publish/broker.ts';
import { lookMs, patienceMs, watchForHangs } from '../../../../src/publish/main/watch/hang-watch.ts';
import { clockOfEach } from '../../../support/fake-time.ts';
import { event, fakeCluster, noAnswer, queueOver } from '../../fake-cluster.ts';

const moved: SendFailure = { kind: 'unknown_outcome', cause: 'LEADER_MOVED', message: 'broker 2 leads now' };
const clock = { now: () => Date.now(), monotonic: () => performance.now() };

describe('watch for brokers that hang', () => {
  const timers = clockOfEach();

  function hanging(giveUpOn: Broker['giveUpOn']) {
    const cluster = fakeCluster();
    const asked: [string, number | undefined][] = [];
    const broker = watchForHangs(
      {
        ...cluster.broker,
        async giveUpOn(topic, partition) {
          asked.push([topic, partition]);
          return giveUpOn?.(topic, partition);
        },
      },
      clock,
    );
    return { ...cluster, broker, asked };
  }

  it('asks nothing about a send that ends in time, and has no timer when all is quiet', async () => {
    const { broker, sends, asked } = hanging(async () => moved);
    const sent = broker.send('t', 0, []);
    await timers.tickAsync(patienceMs - 1);
    sends[0]?.answer({ ok: true });
    assert.deepEqual(await sent, { ok: true });
    await timers.tickAsync(lookMs * 2);
    assert.deepEqual([asked, timers.countTimers()], [[], 0]);
  });

  it('asks again and again about one that takes long, until there is a new leader', async () => {
    let answer: SendFailure | undefined;
    const { broker, sends, asked } = hanging(async () => answer);
    let result: SendResult | undefined;
    void broker.send('t', 4, []).then((ended) => {
      result = ended;
    });
    await timers.tickAsync(patienceMs + lookMs * 2);
    assert.deepEqual(asked, [
      ['t', 4],
      ['t', 4],
      ['t', 4],
    ]);
    assert.equal(result, undefined);
    answer = moved;
    await timers.tickAsync(lookMs);
    assert.deepEqual(result, { ok: false, failure: moved });
    sends[0]?.answer({ ok: true }); // too late: the queue has sent it again
    await timers.tickAsync(lookMs);
    assert.deepEqual([result, asked.length, timers.countTimers()], [{ ok: false, failure: moved }, 4, 0]);
  });

  it('asks once at a time, and about no younger send', async () => {
    let release: (() => void) | undefined;
    const { broker, asked } = hanging(
      () =>
        new Promise((resolve) => {
          release = () => resolve(undefined);
        }),
    );
    void broker.send('t', 0, []);
    await timers.tickAsync(patienceMs - 1);
    void broker.send('t', 1, []);
    await timers.tickAsync(lookMs * 2);
    assert.deepEqual(asked, [['t', 0]]);
    release?.();
    await timers.tickAsync(lookMs);
    assert.deepEqual(asked, [
      ['t', 0],
      ['t', 0],
    ]);
  });

  it('waits on when the question fails', async () => {
    const { broker, sends } = hanging(() => Promise.reject(new Error('broken promise')));
    const sent = broker.send('t', 0, []);
    await timers.tickAsync(patienceMs + lookMs);
    sends[0]?.answer({ ok: false, failure: noAnswer });
    assert.deepEqual(await sent, { ok: false, failure: noAnswer });
  });

  it('leaves a client alone that cannot be asked', () => {
    const { broker } = fakeCluster();
    assert.equal(watchForHangs(broker, clock), broker);
  });

  it('under the queue: the batch goes to the new leader, before what came behind it', async () => {
    const { broker, sends } = hanging(async () => moved);
    const { queue } = queueOver(broker);
    const first = queue.publish(event('1'));
    await timers.tickAsync(10);
    const second = queue.publish(event('2'));
    await timers.tickAsync(patienceMs + lookMs + 1_000);
    assert.deepEqual(
      sends.map(({ ids }) => ids),
      [['1'], ['1']],
    );
    sends[1]?.answer({ ok: true });
    assert.equal(await first, 'published');
    await timers.tickAsync(10);
    sends[2]?.answer({ ok: true });
    assert.equal(await second, 'published');
    assert.deepEqual(sends[2]?.ids, ['2']);
  });
});

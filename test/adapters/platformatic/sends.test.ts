import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { useFakeTimers } from 'sinon';
import { createAnswerTimes } from '../../../src/adapters/kafka/answer-times.ts';
import type { Connections } from '../../../src/adapters/platformatic/connections.ts';
import type {
  Address,
  BrokerConnection,
} from '../../../src/adapters/platformatic/platformatic-connection.ts';
import { createSends } from '../../../src/adapters/platformatic/sends.ts';
import type { Topics } from '../../../src/adapters/platformatic/topics.ts';
import { systemClock } from '../../../src/ground/clock.ts';
import { kafkaOptions, textRecord } from '../kafka/kafka-options.ts';

const [first, second] = [
  { host: 'one', port: 1 },
  { host: 'two', port: 2 },
];

describe('sends of platformatic', () => {
  let leaders: (Address | undefined)[];
  let asked: number;
  let forgotten: number;
  let dropped: Address[];
  let answer: (produce: { partition: number }) => Promise<void>;
  let failHanging: (error: Error) => void;
  let refresh: () => Promise<void>;
  let silentAtMs: number;

  beforeEach(() => {
    leaders = [first, first];
    asked = 0;
    forgotten = 0;
    dropped = [];
    answer = async () => {};
    refresh = async () => {};
    silentAtMs = Number.NEGATIVE_INFINITY;
  });

  const create = () => {
    const find = () => ({ leaders, fetchedAtMs: 0 });
    const topics = {
      find,
      refresh: async () => {
        asked++;
        await refresh();
        return find();
      },
      forget: () => {
        forgotten++;
      },
    };
    const connections = {
      get: () =>
        ({
          produce: (produce: { partition: number }) => answer(produce),
          destroy: () => failHanging(new Error('Connection closed')),
        }) as unknown as BrokerConnection,
      drop: (address: Address) => {
        dropped.push(address);
        failHanging(new Error('Connection closed'));
      },
    };
    return createSends(
      {
        connections: connections as unknown as Connections,
        topics: topics as unknown as Topics,
        silentAtMs: () => silentAtMs,
        answerTimes: createAnswerTimes(systemClock),
      },
      kafkaOptions(['one:1']),
    );
  };
  const hangs = () =>
    new Promise<void>((_, reject) => {
      failHanging = reject;
    });

  it('lets go of a broker that hangs, as soon as another one leads the partition', async () => {
    answer = hangs;
    const mark = { written: false };
    const sends = create();
    const sent = sends.send('t', 1, [textRecord('x')], mark);
    sent.catch(() => {});
    await turn();
    await sends.letGo('t', 1);
    await sends.letGo('t', 0);
    assert.deepEqual([asked, dropped], [1, []]);
    leaders = [first, second];
    await sends.letGo('t', 1);
    assert.deepEqual(dropped, [first]);
    await assert.rejects(sent, /Connection closed/);
    assert.equal(mark.written, true);
    assert.equal(forgotten, 1);
  });

  it('lets go of a connection from before the cluster was silent, once it says again who leads', async () => {
    answer = hangs;
    const sends = create();
    const sent = sends.send('t', 1, [textRecord('x')], { written: false });
    sent.catch(() => {});
    await turn();
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'it was not silent');
    silentAtMs = performance.now();
    leaders = [first, undefined];
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'nobody leads it yet');
    leaders = [first, first];
    await sends.letGo('t', 1);
    await assert.rejects(sent, /Connection closed/);
    answer = hangs;
    sends.send('t', 1, [textRecord('x')], { written: false }).catch(() => {});
    await turn();
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'it began after that');
  });

  it('keeps a connection whose answer came while it asked', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    answer = () => promise;
    const sends = create();
    const sent = sends.send('t', 1, [textRecord('x')], { written: false });
    await turn();
    leaders = [first, second];
    const asking = sends.letGo('t', 1);
    resolve();
    assert.equal(await sent, true);
    await asking;
    assert.deepEqual(dropped, []);
  });

  it('asks who leads for one connection time-out and half a second; an answer after that counts no more', async () => {
    const clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const { promise, resolve } = Promise.withResolvers<void>();
      [answer, refresh] = [hangs, () => promise];
      const sends = create();
      sends.send('t', 1, [textRecord('x')], { written: false }).catch(() => {});
      await turn();
      let isDone = false;
      const asking = sends.letGo('t', 1).then(() => {
        isDone = true;
      });
      await clock.tickAsync(kafkaOptions([]).connectionTimeoutMs + 499);
      assert.equal(isDone, false);
      await clock.tickAsync(1);
      await asking;
      leaders = [first, second];
      resolve();
      await turn();
      assert.deepEqual([asked, dropped], [1, []]);
    } finally {
      clock.restore();
    }
  });

  it('asks again before it says that there is no such partition', async () => {
    assert.equal(await create().send('t', 2, [textRecord('x')], { written: false }), false);
    assert.equal(asked, 1);
    assert.equal(await create().send('t', -1, [textRecord('x')], { written: false }), false);
    assert.equal(asked, 1);
  });

  it('writes nothing where a partition has no leader', async () => {
    leaders = [first, undefined];
    const mark = { written: false };
    await assert.rejects(create().send('t', 1, [textRecord('x')], mark), { apiId: 'LEADER_NOT_AVAILABLE' });
    assert.equal(mark.written, false);
    assert.equal(await create().send('t', 0, [textRecord('x')], mark), true);
  });
});

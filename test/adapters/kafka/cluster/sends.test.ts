import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { useFakeTimers } from 'sinon';
import { createAnswerTimes } from '../../../../src/adapters/kafka/answer-times.ts';
import type { BrokerConnection } from '../../../../src/adapters/kafka/cluster/broker-connection.ts';
import type { Connections } from '../../../../src/adapters/kafka/cluster/connections.ts';
import { createSends } from '../../../../src/adapters/kafka/cluster/sends.ts';
import type { Topics } from '../../../../src/adapters/kafka/cluster/topics.ts';
import type { Node } from '../../../../src/adapters/kafka/protocol/metadata-request.ts';
import { systemClock } from '../../../../src/ground/clock.ts';
import type { SendResult } from '../../../../src/publish/broker.ts';
import { failureOf } from '../../../contract/broker.ts';
import { kafkaOptions, textRecord } from '../kafka-options.ts';

const [first, second] = [
  { nodeId: 1, host: 'one', port: 1 },
  { nodeId: 2, host: 'two', port: 2 },
];

describe('sends to the leaders of partitions', () => {
  let leaders: (Node | undefined)[];
  let asked: number;
  let forgotten: number;
  let dropped: Node[];
  let answer: () => Promise<void>;
  let opening: Promise<void> | undefined;
  let failHanging: (error: Error) => void;
  let refresh: () => Promise<void>;
  let silentAtMs: number;

  beforeEach(() => {
    leaders = [first, first];
    asked = 0;
    forgotten = 0;
    dropped = [];
    answer = async () => {};
    opening = undefined;
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
      get: async () => {
        await opening;
        return {
          ask: () => answer(),
          destroy: () => failHanging(new Error('Connection closed')),
        } as unknown as BrokerConnection;
      },
      drop: (address: Node) => {
        dropped.push(address);
        failHanging(new Error('Connection closed'));
      },
    };
    return createSends(
      {
        connectionsFor: () => connections as unknown as Connections,
        topics: topics as unknown as Topics,
        silentAtMs: () => silentAtMs,
        answerTimes: createAnswerTimes(systemClock),
      },
      kafkaOptions(['one:1']),
    );
  };
  const sendTo = (sends: ReturnType<typeof create>, partition: number): Promise<SendResult> =>
    sends.send('t', partition, [textRecord('x')]);
  const hangs = () =>
    new Promise<void>((_, reject) => {
      failHanging = reject;
    });

  it('lets go of a broker that hangs, as soon as another one leads the partition', async () => {
    answer = hangs;
    const sends = create();
    const sent = sendTo(sends, 1);
    await turn();
    await sends.letGo('t', 1);
    await sends.letGo('t', 0);
    assert.deepEqual([asked, dropped], [1, []]);
    leaders = [first, second];
    await sends.letGo('t', 1);
    assert.deepEqual(dropped, [first]);
    const { kind, cause, message } = failureOf(await sent);
    assert.deepEqual([kind, cause, forgotten], ['unknown_outcome', 'LEADER_MOVED', 1]);
    assert.equal(
      message,
      'broker 1 does not answer, and broker 2 leads partition 1 of topic "t" now: check broker 1',
    );
  });

  it('lets go of one that it is not even connected to: nothing was stored', async () => {
    opening = hangs();
    const sends = create();
    const sent = sendTo(sends, 1);
    await turn();
    assert.equal(sends.traffic().inFlightRequests, 0);
    leaders = [first, second];
    await sends.letGo('t', undefined);
    assert.deepEqual(dropped, [first]);
    const { kind, cause } = failureOf(await sent);
    assert.deepEqual([kind, cause], ['retriable', 'LEADER_MOVED']);
  });

  it('lets go of a connection from before the cluster was silent, once it says again who leads', async () => {
    answer = hangs;
    const sends = create();
    const sent = sendTo(sends, 1);
    await turn();
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'it was not silent');
    silentAtMs = performance.now();
    leaders = [first, undefined];
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'nobody leads it yet');
    leaders = [first, first];
    await sends.letGo('t', 1);
    const { kind, cause, message } = failureOf(await sent);
    assert.deepEqual([kind, cause], ['unknown_outcome', 'TimeoutException']);
    assert.match(message, /^the cluster was silent and is back, and a send to topic "t"/);
    answer = hangs;
    void sendTo(sends, 1);
    await turn();
    await sends.letGo('t', 1);
    assert.equal(sends.traffic().inFlightRequests, 1, 'it began after that');
  });

  it('keeps a connection whose answer came while it asked', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    answer = () => promise;
    const sends = create();
    const sent = sendTo(sends, 1);
    await turn();
    leaders = [first, second];
    const asking = sends.letGo('t', 1);
    resolve();
    assert.deepEqual(await sent, { ok: true });
    await asking;
    assert.deepEqual(dropped, []);
  });

  it('asks who leads for one connection time-out and half a second; an answer after that counts no more', async () => {
    const clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const { promise, resolve } = Promise.withResolvers<void>();
      [answer, refresh] = [hangs, () => promise];
      const sends = create();
      void sendTo(sends, 1);
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
    assert.equal(failureOf(await sendTo(create(), 2)).cause, 'UNKNOWN_PARTITION');
    assert.equal(asked, 1);
    assert.equal(failureOf(await sendTo(create(), -1)).cause, 'UNKNOWN_PARTITION');
    assert.equal(asked, 1);
  });

  it('writes nothing where a partition has no leader', async () => {
    leaders = [first, undefined];
    const { kind, cause } = failureOf(await sendTo(create(), 1));
    assert.deepEqual([kind, cause], ['retriable', 'LEADER_NOT_AVAILABLE']);
    assert.deepEqual(await sendTo(create(), 0), { ok: true });
  });
});

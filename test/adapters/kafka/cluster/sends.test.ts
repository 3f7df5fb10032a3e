import assert from 'node:assert/strict';
import type { Node } from '../../../../src/adapters/kafka/protocol.ts';
import {
  createAnswerTimes,
  createSends,
  createSequences,
  type Topics,
} from '../../../../src/adapters/kafka/session.ts';
import type { BrokerConnection, Connections } from '../../../../src/adapters/kafka/transport.ts';
import type { SendResult } from '../../../../src/publish/broker.ts';
import { failureOf } from '../../../contract/broker.ts';
import { fakeTime } from '../../../support/fake-time.ts';
import { kafkaOptions, neverThrottled, textRecord } from '../kafka-options.ts';

const lookMs = 500;
const stallAfterMs = 3_000;

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
  let fresh: (() => Promise<void>) | undefined;
  let destroyed: string[];

  beforeEach(() => {
    leaders = [first, first];
    asked = 0;
    forgotten = 0;
    dropped = [];
    answer = async () => {};
    opening = undefined;
    refresh = async () => {};
    silentAtMs = Number.NEGATIVE_INFINITY;
    fresh = undefined;
    destroyed = [];
  });

  const create = (isIdempotent = false) => {
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
      throttle: neverThrottled,
      get: async () => {
        await opening;
        return {
          ask: () => answer(),
          destroy: () => {
            destroyed.push('first');
            failHanging(new Error('Connection closed'));
          },
        } as unknown as BrokerConnection;
      },
      replace: async () => {
        if (fresh === undefined) throw new Error('away');
        return { ask: fresh, destroy: () => destroyed.push('fresh') } as unknown as BrokerConnection;
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
        answerTimes: createAnswerTimes(),
        sequences: isIdempotent ? createSequences(async () => ({ id: 1n, epoch: 0 })) : undefined,
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

  describe('that hang', () => {
    let time: ReturnType<typeof fakeTime>;
    beforeEach(() => {
      time = fakeTime();
    });
    afterEach(() => time.restore());
    const turn = () => time.tickAsync(0);

    it('are looked at after a while, again and again, until another broker leads the partition', async () => {
      answer = hangs;
      const sent = sendTo(create(), 1);
      await time.tickAsync(stallAfterMs - 1);
      assert.equal(asked, 0);
      await time.tickAsync(1 + 2 * lookMs);
      assert.deepEqual([asked, dropped], [3, []]);
      leaders = [second, first];
      await time.tickAsync(lookMs);
      assert.deepEqual([asked, dropped], [4, []], 'it is the other partition that has moved');
      leaders = [first, second];
      await time.tickAsync(lookMs);
      assert.deepEqual(dropped, [first]);
      const { kind, cause, message } = failureOf(await sent);
      assert.deepEqual([kind, cause, forgotten], ['unknown_outcome', 'LEADER_MOVED', 1]);
      assert.equal(
        message,
        'broker 1 does not answer, and broker 2 leads partition 1 of topic "t" now: check broker 1',
      );
      await time.tickAsync(lookMs);
      assert.equal(time.countTimers(), 0);
    });

    it('are let go of where they have no connection yet: nothing was stored', async () => {
      opening = hangs();
      const sends = create();
      const sent = sendTo(sends, 1);
      await turn();
      assert.equal(sends.traffic().inFlightRequests, 0);
      leaders = [first, second];
      await time.tickAsync(stallAfterMs);
      assert.deepEqual(dropped, [first]);
      const { kind, cause } = failureOf(await sent);
      assert.deepEqual([kind, cause], ['retriable', 'LEADER_MOVED']);
    });

    it('are let go of where the cluster was silent meanwhile, once it says again who leads', async () => {
      answer = hangs;
      const sends = create();
      const sent = sendTo(sends, 1);
      await time.tickAsync(stallAfterMs);
      assert.equal(sends.traffic().inFlightRequests, 1, 'it was not silent');
      silentAtMs = performance.now();
      leaders = [first, undefined];
      await time.tickAsync(lookMs);
      assert.equal(sends.traffic().inFlightRequests, 1, 'nobody leads it yet');
      leaders = [first, first];
      await time.tickAsync(lookMs);
      const { kind, cause, message } = failureOf(await sent);
      assert.deepEqual([kind, cause], ['unknown_outcome', 'TimeoutException']);
      assert.match(message, /^the cluster was silent and is back, but a send to topic "t"/);
      await time.tickAsync(1);
      answer = hangs;
      void sendTo(sends, 1);
      await time.tickAsync(stallAfterMs + lookMs);
      assert.equal(sends.traffic().inFlightRequests, 1, 'it began after that');
    });

    it('are written to a fresh connection as well, where the leader is the same: one that is dead alone costs seconds', async () => {
      answer = hangs;
      const sent = sendTo(create(true), 1);
      await time.tickAsync(stallAfterMs + lookMs);
      assert.deepEqual(destroyed, [], 'the broker does not take another connection');
      fresh = async () => {};
      await time.tickAsync(2 * lookMs);
      assert.deepEqual(await sent, { ok: true });
      assert.deepEqual([destroyed, dropped], [['first'], []]);
    });

    it('and wait on where both are slow; the first answer counts', async () => {
      const slow = Promise.withResolvers<void>();
      answer = () => slow.promise;
      fresh = hangs;
      const sent = sendTo(create(true), 1);
      await time.tickAsync(stallAfterMs + 4 * lookMs);
      slow.resolve();
      assert.deepEqual(await sent, { ok: true });
      assert.deepEqual(destroyed, []);
    });

    it('but not where Kafka would store them twice', async () => {
      [answer, fresh] = [hangs, async () => {}];
      const sends = create();
      void sendTo(sends, 1);
      await time.tickAsync(stallAfterMs + 4 * lookMs);
      assert.equal(sends.traffic().inFlightRequests, 1);
    });

    it('keep a connection whose answer comes while the leader is asked for', async () => {
      const [{ promise, resolve }, question] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      [answer, refresh] = [() => promise, () => question.promise];
      const sent = sendTo(create(), 1);
      await turn();
      leaders = [first, second];
      await time.tickAsync(stallAfterMs + lookMs);
      assert.equal(asked, 1, 'one question at a time');
      resolve();
      assert.deepEqual(await sent, { ok: true });
      question.resolve();
      await turn();
      assert.deepEqual(dropped, []);
    });

    it('ask who leads for one connection time-out and half a second; an answer after that counts no more', async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      [answer, refresh] = [hangs, () => promise];
      void sendTo(create(), 1);
      await time.tickAsync(stallAfterMs);
      const limitMs = kafkaOptions([]).connectionTimeoutMs + 500;
      await time.tickAsync(limitMs - 1);
      assert.equal(asked, 1);
      leaders = [first, second];
      refresh = hangs;
      await time.tickAsync(1 + lookMs);
      assert.equal(asked, 2);
      resolve();
      await turn();
      assert.deepEqual(dropped, []);
    });
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

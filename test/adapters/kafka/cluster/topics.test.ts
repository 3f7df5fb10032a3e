import assert from 'node:assert/strict';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { ProtocolError } from '../../../../src/adapters/kafka/protocol.ts';
import { BrokerError } from '../../../../src/adapters/kafka/send-failure.ts';
import { createTopics } from '../../../../src/adapters/kafka/session.ts';
import {
  type Address,
  type BrokerConnection,
  type Connections,
  keyOf,
} from '../../../../src/adapters/kafka/transport.ts';
import { useClock } from '../../../support/fake-time.ts';
import { kafkaOptions, neverThrottled } from '../kafka-options.ts';

const brokers = [
  { nodeId: 1, host: 'one', port: 1 },
  { nodeId: 2, host: 'two', port: 2 },
];
const answerOf = (leaders: readonly number[], errorCode = 0) => ({
  clusterId: 'cluster',
  brokers,
  topics: [
    { name: 't', errorCode, partitions: leaders.map((leaderId, partition) => ({ partition, leaderId })) },
  ],
});

describe('topics of a cluster', () => {
  let asked: string[];
  let dropped: string[];
  let renewed: number;
  let open: Set<string>;
  let answers: Record<string, () => Promise<unknown>>;
  let connecting: Record<string, Promise<never>>;
  let clock: SinonFakeTimers | undefined;

  beforeEach(() => {
    asked = [];
    dropped = [];
    renewed = 0;
    open = new Set();
    connecting = {};
    answers = { 'one:1': async () => answerOf([1, 2]), 'two:2': async () => answerOf([2, 2]) };
  });
  afterEach(() => {
    clock?.restore();
    clock = undefined;
  });

  const create = (rest = {}) => {
    const connections = {
      throttle: neverThrottled,
      has: (address: Address) => open.has(keyOf(address)),
      renew: () => renewed++,
      get: (address: Address) => {
        asked.push(keyOf(address));
        const hanging = connecting[keyOf(address)];
        if (hanging !== undefined) return hanging;
        return {
          destroy: () => dropped.push(keyOf(address)),
          ask: async () => {
            try {
              return await answers[keyOf(address)]?.();
            } catch (error) {
              throw new BrokerError(keyOf(address), error);
            }
          },
        } as unknown as BrokerConnection;
      },
    };
    return createTopics(connections as unknown as Connections, kafkaOptions(['one:1', 'two:2'], rest));
  };
  it('asks the next broker when one is away, and first those it is connected to', async () => {
    answers['one:1'] = () => Promise.reject(new Error('away'));
    assert.deepEqual(await create().describe(), { clusterId: 'cluster', nodeCount: 2 });
    assert.deepEqual(asked, ['one:1', 'two:2']);
    open.add('two:2');
    await create().describe();
    assert.deepEqual(asked.slice(2), ['two:2']);
  });

  it('names the first broker when all are away, and asks no other when one refuses', async () => {
    answers = {
      'one:1': () => Promise.reject(new Error('away')),
      'two:2': () => Promise.reject(new Error('too')),
    };
    await assert.rejects(create().describe(), { broker: 'one:1' });
    asked = [];
    for (const refused of [
      new ProtocolError(58),
      Object.assign(new Error('refused'), { name: 'KafkaJSSASLAuthenticationError' }),
      Object.assign(new Error('refused'), { code: 'PLT_KFK_AUTHENTICATION' }),
    ]) {
      asked = [];
      answers['one:1'] = () => Promise.reject(refused);
      await assert.rejects(create().describe());
      assert.deepEqual(asked, ['one:1']);
    }
  });

  it('tells a topic that was created again by its id, where the cluster tells ids, until its partitions are counted anew', async () => {
    const topics = create();
    const idIs = (id: string | undefined): void => {
      const answer = async () => {
        const { topics: found, ...cluster } = answerOf([1, 2]);
        return { ...cluster, topics: found.map((topic) => ({ ...topic, id })) };
      };
      answers = { 'one:1': answer, 'two:2': answer };
    };
    for (const [before, after, isRecreated] of [
      ['a', 'a', false],
      ['a', 'b', true],
      [undefined, 'b', false],
      ['a', undefined, false],
    ] as const) {
      idIs(before);
      await topics.partitionCount('t');
      idIs(after);
      await topics.refresh('t');
      assert.equal(topics.isRecreated('t'), isRecreated);
      await topics.partitionCount('t');
      assert.equal(topics.isRecreated('t'), false);
    }
  });

  it('drops a broker that hangs and asks the next one', async () => {
    clock = useFakeTimers();
    answers['one:1'] = () => new Promise(() => {});
    const found = create({ connectionTimeoutMs: 700 }).describe();
    await clock.tickAsync(699);
    assert.deepEqual(dropped, []);
    await clock.tickAsync(1);
    assert.equal((await found).nodeCount, 2);
    assert.deepEqual(dropped, ['one:1']);
  });

  it('and one that takes the connection and says nothing: that is its first question, and has the same end', async () => {
    clock = useFakeTimers();
    connecting['one:1'] = new Promise(() => {});
    const topics = create({ connectionTimeoutMs: 700 });
    const found = topics.find('t');
    await clock.tickAsync(700);
    assert.equal((await found).leaders.length, 2);
    assert.deepEqual([asked, dropped], [['one:1', 'two:2'], []]);
  });

  it('asks over another connection where one has no answer for 750 ms, and leaves the first question its time', async () => {
    clock = useFakeTimers();
    const { promise, resolve } = Promise.withResolvers<unknown>();
    answers = { 'one:1': () => promise, 'two:2': () => promise };
    open.add('one:1');
    const asking = create({ connectionTimeoutMs: 3_000 }).describe();
    await clock.tickAsync(749);
    assert.deepEqual([asked, renewed], [['one:1'], 0]);
    await clock.tickAsync(1);
    assert.deepEqual([asked, renewed, dropped], [['one:1', 'one:1'], 1, []]);
    resolve(answerOf([1]));
    assert.equal((await asking).nodeCount, 2);
  });

  it('asks one question after the cluster at a time, for all who want to know', async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    answers['one:1'] = () => promise;
    const topics = create();
    const asking = [topics.describe(), topics.describe()];
    resolve(answerOf([1]));
    assert.deepEqual(await Promise.all(asking), Array(2).fill({ clusterId: 'cluster', nodeCount: 2 }));
    assert.deepEqual(asked, ['one:1']);
    await topics.describe();
    assert.equal(asked.length, 2);
  });

  it('gives the last broker the time of a request, and then has an end as well', async () => {
    clock = useFakeTimers();
    answers = { 'one:1': () => new Promise(() => {}), 'two:2': () => new Promise(() => {}) };
    const asking = create({ connectionTimeoutMs: 700, requestTimeoutMs: 2_000 }).describe();
    let failure: BrokerError | undefined;
    asking.catch((error: BrokerError) => {
      failure = error;
    });
    await clock.tickAsync(700 + 1_999);
    assert.deepEqual(dropped.slice(0, 1), ['one:1']);
    assert.ok(!dropped.includes('two:2'));
    await clock.tickAsync(1);
    assert.ok(dropped.includes('two:2'));
    // What was asked meanwhile over other connections has its time.
    await clock.tickAsync(1_500);
    assert.equal(failure?.broker, 'one:1');
  });

  it('remembers the leaders until it is told to forget them, asks once for all who wait', async () => {
    const topics = create();
    const [a, b] = await Promise.all([topics.find('t'), topics.find('t')]);
    assert.equal(a, b);
    await topics.find('t');
    assert.equal(asked.length, 1);
    assert.deepEqual(
      a?.leaders.map((leader) => leader && keyOf(leader)),
      ['one:1', 'two:2'],
    );
    topics.forget('t');
    await topics.find('t');
    assert.equal(asked.length, 2);
  });

  it('asks anew after 2 s where no broker confirms what it gets: none says that it leads no more', async () => {
    let nowMs = 0;
    useClock({ monotonic: () => nowMs });
    const [confirmed, unconfirmed] = [create(), create({ acks: '0' })];
    for (const topics of [confirmed, unconfirmed]) await topics.find('t');
    nowMs = 2_000;
    for (const topics of [confirmed, unconfirmed]) await topics.find('t');
    assert.equal(asked.length, 3);
  });

  it('knows the other leaders when one partition has none', async () => {
    answers['one:1'] = async () => answerOf([1, -1]);
    const { leaders } = await create().find('t');
    assert.deepEqual([leaders.length, leaders[0]?.host, leaders[1]], [2, 'one', undefined]);
  });

  it('counts no partitions of a topic that is not there', async () => {
    for (const unknownOrInvalid of [3, 17]) {
      answers['one:1'] = async () => answerOf([], unknownOrInvalid);
      assert.equal(await create().partitionCount('t'), undefined);
    }
    for (const [code, type] of [
      [5, 'LEADER_NOT_AVAILABLE'],
      [29, 'TOPIC_AUTHORIZATION_FAILED'],
    ] as const) {
      answers['one:1'] = async () => answerOf([], code);
      await assert.rejects(create().partitionCount('t'), { type });
    }
  });
});

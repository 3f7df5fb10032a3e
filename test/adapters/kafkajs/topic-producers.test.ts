import assert from 'node:assert/strict';
import type { KafkajsClient } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { createTopicProducers } from '../../../src/adapters/kafkajs/topic-producers.ts';
import { kafkaOptions, textRecord } from '../kafka/kafka-options.ts';

describe('topic producers', () => {
  interface Fake {
    readonly topics: Set<string>;
    connects: number;
    closed: boolean;
  }
  let fakes: Fake[];
  let asked: [acks: number, compression: number][];
  let answer: (topic: string) => Promise<object[]>;
  let connect: (fake: Fake) => Promise<void>;

  const open = (): KafkajsClient => {
    const fake: Fake = { topics: new Set(), connects: 0, closed: false };
    fakes.push(fake);
    const producer = {
      connect: () => {
        fake.connects++;
        return connect(fake);
      },
      disconnect: async () => {},
      on: () => () => {},
      events: {},
      send: ({ topic, acks, compression }: { topic: string; acks: number; compression: number }) => {
        fake.topics.add(topic);
        asked.push([acks, compression]);
        return answer(topic);
      },
    };
    const destroySockets = () => {
      fake.closed = true;
    };
    return {
      kafka: { producer: () => producer },
      createPartitioner: () => () => 0,
      destroySockets,
    } as unknown as KafkajsClient;
  };
  const create = () => createTopicProducers(open, kafkaOptions(['one:1', 'two:2', 'three:3']));
  const sendTo = (producers: ReturnType<typeof create>, topic: string) =>
    producers.send(topic, 0, [textRecord('x')], { written: false });
  const named = (name: string, type?: string) =>
    Object.assign(new Error(name), { name, ...(type !== undefined && { type }) });

  beforeEach(() => {
    fakes = [];
    asked = [];
    answer = async () => [{}];
    connect = async () => {};
  });

  it('opens one client a topic, so that no topic stands in the way of another', async () => {
    const producers = create();
    for (const topic of ['a', 'b', 'a']) await sendTo(producers, topic);
    assert.deepEqual(
      fakes.map(({ topics }) => [...topics]),
      [['a'], ['b']],
    );
    assert.deepEqual(
      fakes.map(({ connects }) => connects),
      [1, 1],
    );
  });

  it('leaves a send under way on its client when it is renewed, and begins the next one with another', async () => {
    const { promise, resolve } = Promise.withResolvers<object[]>();
    answer = () => promise;
    const producers = create();
    const before = sendTo(producers, 'a');
    producers.renew();
    assert.equal(producers.oldest('a', 0)?.mark.givenUp, undefined);
    const after = sendTo(producers, 'a');
    assert.deepEqual(
      fakes.map(({ closed }) => closed),
      [false, false],
    );
    resolve([{}]);
    assert.deepEqual([await before, await after], [1, 1]);
    await new Promise(setImmediate);
    assert.deepEqual(
      fakes.map(({ closed }) => closed),
      [true, false],
    );
  });

  it('asks for the acks and the compression that are configured, as Kafka numbers them', async () => {
    const settings = [{}, { acks: 'all', compression: 'none' }, { acks: '1', compression: 'gzip' }] as const;
    for (const each of [...settings, { acks: '0', compression: 'zstd' } as const])
      await sendTo(createTopicProducers(open, kafkaOptions(['one:1'], each)), 'a');
    assert.deepEqual(asked, [
      [-1, 0],
      [-1, 0],
      [1, 1],
      [0, 4],
    ]);
  });

  it('tries every broker of the list once', async () => {
    connect = (fake) =>
      fake.connects < 3 ? Promise.reject(named('KafkaJSConnectionError')) : Promise.resolve();
    assert.equal(await sendTo(create(), 'a'), 1);
    connect = async () => Promise.reject(named('KafkaJSConnectionError'));
    await assert.rejects(sendTo(create(), 'a'), { name: 'KafkaJSConnectionError' });
    assert.deepEqual(
      fakes.map(({ connects }) => connects),
      [3, 3],
    );
  });

  it('asks no second broker when the first refuses the user', async () => {
    connect = async () => Promise.reject(named('KafkaJSSASLAuthenticationError'));
    await assert.rejects(sendTo(create(), 'a'));
    assert.equal(fakes[0]?.connects, 1);
  });

  it('goes to another client after a broker that took the connection and said nothing', async () => {
    connect = async (fake) => {
      if (fake === fakes[0]) throw named('KafkaJSRequestTimeoutError');
    };
    const producers = create();
    await assert.rejects(sendTo(producers, 'a'), { name: 'KafkaJSRequestTimeoutError' });
    assert.equal(await sendTo(producers, 'a'), 1);
    assert.deepEqual(
      fakes.map(({ connects, closed }) => [connects, closed]),
      [
        [1, true],
        [1, false],
      ],
    );
  });

  it('begins anew after a time-out, and lets the other sends of the old client end', async () => {
    const producers = create();
    let release = (_: object[]): void => {};
    answer = () =>
      new Promise((resolve) => {
        release = resolve;
      });
    const slow = sendTo(producers, 'a');
    await new Promise(setImmediate);
    answer = async () => Promise.reject(named('KafkaJSRequestTimeoutError'));
    await assert.rejects(sendTo(producers, 'a'));
    assert.equal(fakes[0]?.closed, false);
    answer = async () => [{}];
    await sendTo(producers, 'a');
    assert.equal(fakes.length, 2);
    release([{}]);
    assert.equal(await slow, 1);
    await new Promise(setImmediate);
    assert.equal(fakes[0]?.closed, true);
    assert.equal(fakes[1]?.closed, false);
  });

  it('keeps the client where kafkajs recovers by itself', async () => {
    const producers = create();
    for (const error of [
      named('KafkaJSConnectionError'),
      named('KafkaJSConnectionClosedError'),
      named('KafkaJSProtocolError', 'NOT_LEADER_FOR_PARTITION'),
    ]) {
      answer = async () => Promise.reject(error);
      await assert.rejects(sendTo(producers, 'a'));
    }
    assert.equal(fakes.length, 1);
  });

  it('keeps 32 clients, and closes the one unused for longest for the 33rd', async () => {
    const producers = create();
    for (let index = 0; index < 32; index++) await sendTo(producers, `topic-${index}`);
    await sendTo(producers, 'topic-0');
    assert.equal(fakes.filter(({ closed }) => closed).length, 0);
    await sendTo(producers, 'one more');
    await new Promise(setImmediate);
    assert.deepEqual(
      fakes.flatMap(({ closed, topics }) => (closed ? [...topics] : [])),
      ['topic-1'],
    );
    await producers.close();
    assert.equal(
      fakes.every(({ closed }) => closed),
      true,
    );
  });
});

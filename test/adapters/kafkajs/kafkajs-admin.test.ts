import assert from 'node:assert/strict';
import sinon from 'sinon';
import { createSilence } from '../../../src/adapters/kafka/silence.ts';
import { createKafkajsAdmin } from '../../../src/adapters/kafkajs/kafkajs-admin.ts';
import type { KafkajsClient } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { systemClock } from '../../../src/ground/clock.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

describe('questions through kafkajs', () => {
  const cluster = { clusterId: 'c', brokers: [{ host: 'one', port: 1 }] };
  let clock: sinon.SinonFakeTimers;
  /** Of each connection, in the order of their opening. */
  let opened: { isDead: boolean; isClosed: boolean; asked: number; left: number }[];
  let isAway: boolean;

  const open = (): KafkajsClient => {
    const state = { isDead: isAway, isClosed: false, asked: 0, left: 0 };
    opened.push(state);
    const admin = {
      connect: async () => {},
      disconnect: async () => {
        state.left++;
      },
      fetchTopicMetadata: async () => {
        await new Promise((resolve) => setTimeout(resolve, 900 + state.asked++));
        return { topics: [{ partitions: [{}] }] };
      },
      describeCluster: () => {
        state.asked++;
        return state.isDead ? new Promise(() => {}) : Promise.resolve(cluster);
      },
    };
    const destroySockets = () => {
      state.isClosed = true;
    };
    return { kafka: { admin: () => admin }, destroySockets } as unknown as KafkajsClient;
  };

  beforeEach(() => {
    clock = sinon.useFakeTimers();
    opened = [];
    isAway = false;
  });
  afterEach(() => clock.restore());

  const loseNetwork = () => {
    isAway = true;
    for (const each of opened) each.isDead = true;
  };

  it('use one connection, as long as it answers, and ask once for all who want to know', async () => {
    const admin = createKafkajsAdmin(open, kafkaOptions(['one:1']));
    await Promise.all([admin.describe(), admin.describe()]);
    await clock.tickAsync(10_000);
    await admin.describe();
    assert.deepEqual(opened, [{ isDead: false, isClosed: false, asked: 2, left: 0 }]);
  });

  it('leave a connection once, however many questions end on it after another has taken its place', async () => {
    const admin = createKafkajsAdmin(open, kafkaOptions(['one:1']));
    const counts = Promise.all(Array.from({ length: 20 }, (_, at) => admin.partitionCount(`topic-${at}`)));
    await clock.tickAsync(3_000);
    assert.deepEqual(new Set(await counts), new Set([1]));
    assert.deepEqual(
      opened.map(({ left, isClosed }) => [left, isClosed]),
      [
        [1, true],
        [0, false],
      ],
    );
  });

  it('have an answer 750 ms after a lost network is back at the latest, over a fresh connection that is kept', async () => {
    const admin = createKafkajsAdmin(open, kafkaOptions(['one:1']));
    await admin.describe();
    loseNetwork();
    const first = admin.describe();
    await clock.tickAsync(300);
    const second = admin.describe();
    await clock.tickAsync(451);
    assert.equal(opened.length, 2);
    isAway = false;
    await clock.tickAsync(749);
    const third = admin.describe();
    await clock.tickAsync(300);
    assert.equal((await third).clusterId, 'c');
    assert.equal((await first).clusterId, 'c');
    assert.equal((await second).clusterId, 'c');
    const { length } = opened;
    await admin.describe();
    assert.equal(opened.length, length);
  });

  it('tell of the silence of a connection although a fresh one answers', async () => {
    let silent = 0;
    const silence = createSilence(
      systemClock,
      () => silent++,
      () => undefined,
    );
    const admin = createKafkajsAdmin(open, kafkaOptions(['one:1']), silence.notice);
    await admin.describe();
    loseNetwork();
    isAway = false;
    const question = admin.describe();
    await clock.tickAsync(750);
    await question;
    assert.equal(silent, 0);
    await clock.tickAsync(1_250);
    assert.equal(silent, 1);
  });
});

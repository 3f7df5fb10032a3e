import assert from 'node:assert/strict';
import type { KafkajsClient, OpenKafkajsClient } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { createLeaderScout } from '../../../src/adapters/kafkajs/leader-scout.ts';
import { clockOfEach } from '../../support/fake-time.ts';

const never = new Promise<never>(() => {});

describe('scout for leaders', () => {
  const timers = clockOfEach();

  /** Brokers by their address: what each answers about partition 0, or that it does not. */
  function clusterOf(answers: Record<string, number | 'hangs' | 'refuses'>) {
    const asked: string[] = [];
    const dropped = new Set<object>();
    const open: OpenKafkajsClient = ({ brokers = [] } = {}) => {
      const [address = ''] = brokers;
      const client = {};
      asked.push(address);
      const leader = answers[address];
      const admin = {
        connect: async () => {
          if (leader === 'refuses') throw new Error('refused');
        },
        fetchTopicMetadata: () =>
          leader === 'hangs'
            ? never
            : Promise.resolve({ topics: [{ name: 't', partitions: [{ partitionId: 0, leader }] }] }),
      };
      const destroySockets = () => void dropped.add(client);
      return Object.assign(client, {
        kafka: { admin: () => admin },
        destroySockets,
      }) as unknown as KafkajsClient;
    };
    const scout = createLeaderScout(open, () => Object.keys(answers));
    return { scout, asked, dropped: () => dropped.size };
  }

  it('takes the word of the first broker that answers, and drops all its connections at once', async () => {
    const { scout, asked, dropped } = clusterOf({ a: 'hangs', b: 2, c: 'refuses' });
    assert.equal(await scout.leaderOf('t', 0), 2);
    assert.deepEqual(asked, ['a', 'b', 'c']);
    assert.equal(dropped(), 3);
  });

  it('asks once for all partitions of a topic, and anew half a second later', async () => {
    const { scout, asked } = clusterOf({ a: 1 });
    assert.deepEqual(await Promise.all([scout.leaderOf('t', 0), scout.leaderOf('t', 1)]), [1, undefined]);
    await timers.tickAsync(499);
    await scout.leaderOf('t', 0);
    assert.equal(asked.length, 1);
    await timers.tickAsync(1);
    await scout.leaderOf('t', 0);
    assert.equal(asked.length, 2);
  });

  it('knows of none where the partition has none, where all refuse, and after some seconds where all hang; and asks again', async () => {
    assert.equal(await clusterOf({ a: -1 }).scout.leaderOf('t', 0), undefined);
    assert.equal(await clusterOf({ a: 'refuses' }).scout.leaderOf('t', 0), undefined);
    const answers: Record<string, number | 'hangs'> = { a: 'hangs', b: 'hangs' };
    const { scout, asked, dropped } = clusterOf(answers);
    const question = scout.leaderOf('t', 0);
    await timers.tickAsync(4_500);
    assert.equal(await question, undefined);
    assert.equal(dropped(), asked.length);
    answers.b = 3;
    assert.equal(await scout.leaderOf('t', 0), 3);
  });

  it('hears of a leader within 750 ms where the cluster is back, and what was asked before has no answer', async () => {
    const answers: Record<string, number | 'hangs'> = { a: 'hangs', b: 'hangs' };
    const { scout } = clusterOf(answers);
    const question = scout.leaderOf('t', 0);
    await timers.tickAsync(1);
    answers.a = answers.b = 3;
    await timers.tickAsync(749);
    assert.equal(await question, 3);
  });
});

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, { type Admin } from 'kafkajs';
import {
  type ClusterNode,
  type KafkaCluster,
  startKafkaCluster,
} from '../../scripts/services/kafka-cluster.ts';
import type { SendResult } from '../../src/publish/broker.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { kafkaOptions, textRecord } from '../adapters/kafka/kafka-options.ts';
import { failureOf } from '../contract/broker.ts';
import { logInto } from '../support/log.ts';
import { requiring } from '../support/requires.ts';
import { startSvc } from './started-svc.ts';

/** Two replicas of which both must have a record: with the second one's node ended, the leader is alone. */
const topic = 'orders';
const deadTopic = 'orders.dlq';

requiring('secure-kafka', 'acks, on a cluster with a replica too few', function () {
  this.timeout(120_000);
  let cluster: KafkaCluster;
  let brokers: readonly string[];
  let admin: Admin;
  let follower: ClusterNode;
  /** By the word of the leader. */
  let acknowledged = 0;

  before(async () => {
    cluster = await startKafkaCluster();
    const [leader, second, other] = cluster.nodes;
    follower = second as ClusterNode;
    brokers = [leader, other].map((node) => node?.address ?? '');
    admin = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    const onNodes = (replicas: number[], minInSync: string) => ({
      replicaAssignment: [{ partition: 0, replicas }],
      configEntries: [{ name: 'min.insync.replicas', value: minInSync }],
    });
    await admin.createTopics({
      waitForLeaders: true,
      topics: [
        { topic, ...onNodes([1, 2], '2') },
        { topic: deadTopic, ...onNodes([3, 1], '1') },
      ],
    });
    await follower.kill();
    await inSync(1);
  });
  after(async () => {
    await admin?.disconnect();
    await cluster?.stop();
  });

  async function inSync(replicaCount: number): Promise<void> {
    for (const end = Date.now() + 60_000; ; await sleep(100)) {
      // kafkajs asks any node that it knows, the ended one too, and then fails.
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] }).catch(() => ({ topics: [] }));
      const { leader, isr } = topics[0]?.partitions[0] ?? {};
      if (leader === 1 && isr?.length === replicaCount) return;
      assert.ok(Date.now() < end, `the leader is ${leader}, in sync are ${isr}`);
    }
  }
  /** Records that consumers see: Kafka holds them back while replicas are too few. */
  const count = async (name: string): Promise<number> =>
    Number((await admin.fetchTopicOffsets(name))[0]?.high ?? Number.NaN);

  for (const { name, create } of kafkaClients) {
    it(`${name}: with 1 the leader alone is enough, with all it is refused`, async () => {
      const send = async (acks: '1' | 'all'): Promise<SendResult> => {
        const broker = create(kafkaOptions(brokers, { acks, requestTimeoutMs: 10_000 }));
        const result = await broker.send(topic, 0, [textRecord(acks)]);
        await broker.close(1_000);
        return result;
      };
      const failure = failureOf(await send('all'));
      assert.deepEqual([failure.kind, failure.cause], ['retriable', 'NOT_ENOUGH_REPLICAS']);
      assert.match(failure.message, /fewer replicas in sync than min\.insync\.replicas/);
      assert.deepEqual(await send('1'), { ok: true });
      acknowledged++;
    });

    it(`${name}: what is refused goes to the next tier, and is counted there`, async () => {
      for (const [acks, outcome, other] of [
        ['all', 'dlq', 'published'],
        ['1', 'published', 'dlq'],
      ] as const) {
        const dead = await count(deadTopic);
        const lines: string[] = [];
        const logger = logInto(lines, false);
        const broker = { client: name, bootstrapServers: brokers, topic, dlqTopic: deadTopic, acks };
        const svc = startSvc(broker, { logger });
        try {
          const result = await svc.service.producer.publish({ acks }, { eventType: 'PLACED', key: 'k' });
          assert.equal(result.outcome, outcome, lines.join('\n'));
          const metrics = await (await fetch(await urlIn(lines))).text();
          const counted = (what: string) =>
            new RegExp(`^svc_events_${what}_total\\{eventType="PLACED"\\} (\\d+)$`, 'm').exec(metrics)?.[1];
          assert.deepEqual([counted(outcome), counted(other), counted('lost')], ['1', '0', '0']);
          assert.equal(await count(deadTopic), dead + (outcome === 'dlq' ? 1 : 0));
          if (outcome === 'published') acknowledged++;
        } finally {
          await svc.end();
        }
      }
    });
  }

  it('when the second replica is back, all that was acknowledged is there, and nothing that was refused', async () => {
    follower.launch();
    await follower.ready();
    await inSync(2);
    assert.equal(acknowledged, 2 * kafkaClients.length);
    for (const end = Date.now() + 10_000; (await count(topic)) < acknowledged; await sleep(100))
      assert.ok(Date.now() < end, `${await count(topic)} of ${acknowledged} are there`);
    assert.equal(await count(topic), acknowledged);
  });
});

/** Of the metrics: the management server starts a moment after the first event. */
async function urlIn(lines: readonly string[]): Promise<string> {
  for (const end = Date.now() + 10_000; Date.now() < end; await sleep(10)) {
    const url = /http:\/\/127\.0\.0\.1:\d+\/metrics/.exec(lines.join('\n'))?.[0];
    if (url !== undefined) return url;
  }
  return assert.fail('no management server');
}

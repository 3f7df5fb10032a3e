import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { kafkajsTopics } from '../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { silentLog } from '../../support/log.ts';
import { requiring } from '../../support/requires.ts';
import { createKafkajsBroker } from '../kafka/kafka-clients.ts';

interface FetchingBroker {
  fetch(request: object): Promise<unknown>;
}

interface ClusterClass {
  prototype: {
    findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, number[]>;
    findBroker(node: { nodeId: string }): Promise<FetchingBroker>;
  };
}

const { prototype: cluster } = createRequire(import.meta.url)('kafkajs/src/cluster') as ClusterClass;
const { findLeaderForPartitions, findBroker } = cluster;

/** Each partition has a leader of its own, and that of partition 1 fails once, after the other has answered. */
function failOneLeaderOnce(): { readonly failures: () => number } {
  let failures = 0;
  let answered: () => void = () => {};
  const otherHasAnswered = new Promise<void>((resolve) => {
    answered = resolve;
  });
  cluster.findLeaderForPartitions = function (topic, partitions) {
    const leaders = findLeaderForPartitions.call(this, topic, partitions);
    return Object.fromEntries(
      Object.entries(leaders).flatMap(([node, of]) => of.map((each) => [`${node}/${each}`, [each]])),
    );
  };
  cluster.findBroker = async function ({ nodeId }) {
    const [node = '', partition] = nodeId.split('/');
    const broker = await findBroker.call(this, { nodeId: node });
    if (partition === undefined) return broker;
    return {
      async fetch(request) {
        if (partition === '1' && failures === 0) {
          await otherHasAnswered;
          failures++;
          throw new Error('connect ECONNREFUSED');
        }
        const fetched = await broker.fetch(request);
        answered();
        return fetched;
      },
    };
  };
  return { failures: () => failures };
}

requiring('kafka', 'a topic that is followed, with a leader that fails', function () {
  this.timeout(60_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });
  after(() => kafka.stop());
  afterEach(() => Object.assign(cluster, { findLeaderForPartitions, findBroker }));

  it('gives what the other leaders have answered, and each record once', async () => {
    const topic = `tail-${process.pid}-${Date.now()}`;
    const options = {
      ...{ brokers: kafka.brokers, clientId: 'test', requestTimeoutMs: 10_000, connectionTimeoutMs: 3_000 },
      logger: silentLog,
    };
    await kafka.createTopic(topic, { partitions: 2 });
    const broker = createKafkajsBroker(options);
    const fromMs = Date.now() - 60_000;
    for (const [partition, keys] of [
      [0, ['a', 'b']],
      [1, ['c', 'd']],
    ] as const) {
      const records = keys.map((key) => ({
        key,
        value: Buffer.from(key),
        headers: {},
        timestamp: Date.now(),
      }));
      assert.deepEqual(await broker.send(topic, partition, records), { ok: true });
    }
    await broker.close(5_000);

    const tail = kafkajsTopics.tail({ ...options, topic, fromMs, untilMs: undefined });
    await tail.open();
    const { failures } = failOneLeaderOnce();
    const ending = new AbortController();
    const read: (string | null)[] = [];
    try {
      for await (const records of tail.read(ending.signal)) {
        read.push(...records.map(({ key }) => key));
        if (read.includes('d')) break;
      }
    } finally {
      await tail.close();
    }
    assert.equal(failures(), 1);
    assert.deepEqual(read.toSorted(), ['a', 'b', 'c', 'd']);
  });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { consoleLogger } from '../../src/observe/logger.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { recordOf, testBroker } from './broker.ts';

for (const { name, create } of kafkaClients) {
  requiring('kafka', `broker contract: ${name}`, function () {
    this.timeout(60_000);
    let kafka: TestKafka;

    before(async () => {
      kafka = await startKafka();
    });

    testBroker(() => ({
      open: () =>
        create({
          brokers: kafka.brokers,
          clientId: 'svc-contract',
          requestTimeoutMs: 10_000,
          connectionTimeoutMs: 3000,
          logger: consoleLogger('off'),
        }),
      createTopic: (name, partitions) => kafka.createTopic(name, { partitions }),
      read: async (topic, count) =>
        (await kafka.read(topic, { count })).map((record) => ({ ...record, value: record.valueBytes })),
      count: (topic) => countWhenReady(kafka, topic),
      hasPartitions: true,
      isCluster: true,
      longestTopicName: 249,
      refused: { record: recordOf('x'.repeat(1_100_000)), kind: 'too_large' },
    }));
  });
}

/** A topic that was just made may not answer for all of its partitions yet. */
async function countWhenReady(kafka: TestKafka, topic: string): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await kafka.count(topic);
    } catch (error) {
      if (attempt === 20) throw error;
      await sleep(100);
    }
  }
}

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { consoleLogger } from '../../src/observe/logger.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { failureOf, newTopic, recordOf, testBroker } from './broker.ts';

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

    for (const compression of ['none', 'gzip'] as const)
      it(`takes what cannot be encoded for a fault of the record, and keeps its connection (${compression})`, async () => {
        const broker = create({
          ...{ brokers: kafka.brokers, clientId: 'svc-contract', compression },
          ...{ requestTimeoutMs: 10_000, connectionTimeoutMs: 3_000, logger: consoleLogger('off') },
        });
        const topic = newTopic();
        await kafka.createTopic(topic, { partitions: 2 });
        assert.deepEqual(await broker.send(topic, 0, [recordOf('first')]), { ok: true });
        const connections = broker.traffic?.()?.connectionCount;
        for (const header of [1, null, {}, [], ['a']])
          for (const partition of [0, undefined]) {
            const bad = recordOf('bad', { headers: { a: header as unknown as string } });
            const records = partition === undefined ? [bad] : [recordOf('good'), bad];
            const { kind, cause, message } = failureOf(await broker.send(topic, partition, records));
            assert.deepEqual([kind, cause], ['fatal', 'SVC_PUBLISH_NOT_A_RECORD'], message);
          }
        assert.equal(broker.traffic?.()?.connectionCount, connections);
        assert.equal(broker.traffic?.()?.inFlightRequests, 0);
        assert.deepEqual(await broker.send(topic, 0, [recordOf('last')]), { ok: true });
        assert.equal(await countWhenReady(kafka, topic), 2);
        await broker.close(1_000);
      });
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

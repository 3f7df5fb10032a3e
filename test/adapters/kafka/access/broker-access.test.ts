import assert from 'node:assert/strict';
import type { AccessReport } from '../../../../src/publish/broker.ts';
import { openBrokerAccess } from '../../../../src/start/adapters.ts';
import { newTopic } from '../../../contract/broker.ts';
import { startKafka, type TestKafka } from '../../../support/kafka.ts';
import { requiring } from '../../../support/requires.ts';
import { type SilentServer, startSilentServer } from '../../../support/silent-server.ts';
import { kafkaClients } from '../kafka-clients.ts';
import { configOf, kafkaOptions } from '../kafka-options.ts';

const never = new AbortController().signal;

async function ask(
  client: string,
  brokers: readonly string[],
  topics: readonly string[],
  group?: string,
): Promise<AccessReport> {
  const askAccess = await openBrokerAccess(configOf(client, kafkaOptions(brokers)));
  return askAccess({ topics, group }, never);
}

requiring('kafka', 'what a broker would let svc do', function () {
  this.timeout(30_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });

  for (const { name } of kafkaClients) {
    it(`${name}: the cluster, its topics, and the group, of which nothing is made`, async () => {
      const [there, missing, group] = [newTopic(), newTopic(), newTopic()];
      await kafka.createTopic(there, { partitions: 3 });
      const first = await ask(name, kafka.brokers, [there, missing, 'größe'], group);
      assert.match(String(first.cluster?.clusterId), /^[\w-]{22}$/);
      assert.equal(first.cluster?.nodeCount, 1);
      assert.deepEqual(first.topics[0], {
        ...{ topic: there, partitionCount: 3, isAllowed: true, problem: undefined },
      });
      assert.match(
        first.topics[1]?.problem ?? '',
        new RegExp(`^topic "${missing}" does not exist: create it`),
      );
      assert.match(first.topics[2]?.problem ?? '', /^Kafka refuses the name of topic "größe": /);
      assert.deepEqual(first.group, { isAllowed: true, problem: undefined });
      // These brokers make topics by themselves, for whoever asks carelessly.
      const [again] = (await ask(name, kafka.brokers, [missing])).topics;
      assert.match(again?.problem ?? '', /does not exist/);
      assert.equal(await kafka.count(there), 0);
    });

    it(`${name}: asks the next broker where one is away`, async () => {
      const { cluster, group } = await ask(name, ['127.0.0.1:1', ...kafka.brokers], []);
      assert.deepEqual([cluster?.nodeCount, group], [1, undefined]);
    });
  }
});

describe('a broker that cannot be asked', function () {
  this.timeout(20_000);
  let silent: SilentServer;
  before(async () => {
    silent = await startSilentServer();
  });
  after(() => silent.close());

  for (const { name } of kafkaClients) {
    it(`${name}: is away, in one line`, async () => {
      await assert.rejects(ask(name, ['127.0.0.1:1'], ['orders']), {
        code: 'SVC_ADAPTERS_NOT_REACHABLE',
        message: /^cannot reach Kafka at 127\.0\.0\.1:1 \(ECONNREFUSED\)[^\n]+$/,
      });
    });

    it(`${name}: hangs, in one line, and leaves no connection open`, async () => {
      await assert.rejects(ask(name, [silent.address], ['orders']), {
        code: 'SVC_ADAPTERS_NOT_REACHABLE',
        message:
          /^no answer from Kafka \(127\.0\.0\.1:\d+\) within \d+ ms[^\n]+$|did not accept a connection/,
      });
      for (let look = 0; look < 100 && silent.connections() > 0; look++) await new Promise(setImmediate);
      assert.equal(silent.connections(), 0);
    });
  }
});

import assert from 'node:assert/strict';
import { createKafkaAccess } from '../../../../src/adapters/kafka/kafka-broker.ts';
import type { AccessReport } from '../../../../src/publish/broker.ts';
import { type FakeKafka, startFakeKafka } from '../../../support/fake-kafka.ts';
import { kafkaClients } from '../kafka-clients.ts';
import { kafkaOptions } from '../kafka-options.ts';

const write = 1 << 4;

for (const { name, load } of kafkaClients)
  describe(`what metadata tell of a topic, through ${name}`, () => {
    let kafka: FakeKafka;
    beforeEach(async () => {
      kafka = await startFakeKafka();
    });
    afterEach(() => kafka.close());

    async function tell(its: Partial<FakeKafka>): Promise<AccessReport['topics'][number]> {
      Object.assign(kafka, its);
      const ask = createKafkaAccess(kafkaOptions([kafka.address]), load);
      const { topics } = await ask({ topics: ['orders'], group: undefined }, new AbortController().signal);
      const [orders] = topics;
      assert.ok(orders);
      return orders;
    }

    it('the right to write, or that there is none', async () => {
      const all = await tell({ partitions: 2, rights: 0xdf8 });
      assert.deepEqual(all, { topic: 'orders', partitionCount: 2, isAllowed: true, problem: undefined });
      const others = await tell({ rights: 0xdf8 & ~write });
      assert.equal(others.isAllowed, false);
      assert.match(others.problem ?? '', /^the client "svc-tests" may not write to topic "orders"/);
    });

    it('is no problem where brokers do not tell rights, and no promise', async () => {
      for (const rights of [undefined, -2_147_483_648]) {
        const found = await tell({ partitions: 2, rights });
        assert.deepEqual([found.isAllowed, found.problem, found.partitionCount], [undefined, undefined, 2]);
      }
    });

    it('a partition without a leader, and an error that nobody knows here', async () => {
      const leaderless = await tell({ leaderId: -1, rights: write });
      assert.match(leaderless.problem ?? '', /^a partition of topic "orders" currently has no leader/);
      const strange = await tell({ topicError: 99 });
      assert.equal(strange.problem, 'Kafka does not describe topic "orders" (error 99)');
      assert.match((await tell({ topicError: 3 })).problem ?? '', /does not exist/);
    });
  });

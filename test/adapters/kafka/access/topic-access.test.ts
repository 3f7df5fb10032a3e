import assert from 'node:assert/strict';
import { topicAccess } from '../../../../src/adapters/kafka/kafka-broker.ts';
import type { TopicMetadata } from '../../../../src/adapters/kafka/protocol.ts';
import { kafkaOptions } from '../kafka-options.ts';

const options = kafkaOptions(['kafka1:9092']);
const write = 1 << 4;
const led = (...leaders: number[]) => leaders.map((leaderId, partition) => ({ partition, leaderId }));
const metadata = (rest: Partial<TopicMetadata>): TopicMetadata => ({
  ...{ errorCode: 0, name: 'orders', partitions: led(1, 0) },
  ...rest,
});

describe('what metadata tell of a topic', () => {
  it('the right to write, or that there is none', () => {
    const all = topicAccess('orders', metadata({ topicAuthorizedOperations: 0xdf8 }), options);
    assert.deepEqual(all, { topic: 'orders', partitionCount: 2, isAllowed: true, problem: undefined });
    const others = topicAccess('orders', metadata({ topicAuthorizedOperations: 0xdf8 & ~write }), options);
    assert.equal(others.isAllowed, false);
    assert.match(others.problem ?? '', /^the client "svc-tests" may not write to topic "orders"/);
  });

  it('is no problem where brokers do not tell rights, and no promise', () => {
    for (const rights of [undefined, -2_147_483_648]) {
      const found = topicAccess('orders', metadata({ topicAuthorizedOperations: rights }), options);
      assert.deepEqual([found.isAllowed, found.problem, found.partitionCount], [undefined, undefined, 2]);
    }
  });

  it('a partition without a leader, and an error that nobody knows here', () => {
    const partitions = led(1, -1);
    const found = topicAccess('orders', metadata({ partitions, topicAuthorizedOperations: write }), options);
    assert.match(found.problem ?? '', /^a partition of topic "orders" currently has no leader/);
    const strange = topicAccess('orders', metadata({ errorCode: 99 }), options);
    assert.equal(strange.problem, 'Kafka does not describe topic "orders" (error 99)');
    assert.match(topicAccess('orders', undefined, options).problem ?? '', /does not exist/);
  });
});

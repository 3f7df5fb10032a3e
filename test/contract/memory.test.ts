import { createMemoryBroker, sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { testBroker } from './broker.ts';

describe('broker contract: memory', () => {
  const store = sharedMemoryStore();
  const read = async (topic: string) =>
    store.all().flatMap((stored) => (stored.topic === topic ? [{ ...stored.record, partition: 0 }] : []));

  before(() => store.clear());

  testBroker(() => ({
    open: createMemoryBroker,
    createTopic: async () => {},
    read,
    count: async (topic) => (await read(topic)).length,
    hasPartitions: false,
    isCluster: false,
    longestTopicName: 249,
  }));
});

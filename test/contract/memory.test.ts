import { createMemoryBroker, createMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { testBroker } from './broker.ts';

describe('broker contract: memory', () => {
  let store: ReturnType<typeof createMemoryStore>;
  const read = async (topic: string) =>
    store.all().flatMap((stored) => (stored.topic === topic ? [{ ...stored.record, partition: 0 }] : []));

  before(() => {
    store = createMemoryStore();
  });

  testBroker(() => ({
    open: () => createMemoryBroker({ store }),
    createTopic: async () => {},
    read,
    count: async (topic) => (await read(topic)).length,
    hasPartitions: false,
    isCluster: false,
    longestTopicName: 249,
  }));
});

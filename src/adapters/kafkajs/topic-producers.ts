import type { BrokerRecord } from '../../publish/broker.ts';
import { ackNumbers, codecNumbers } from '../kafka/protocol-numbers.ts';
import type { KafkajsClientOptions, OpenKafkajsClient } from './kafkajs-client.ts';
import { rootCause } from './kafkajs-failure.ts';
import {
  createTopicProducer,
  type TopicProducer,
  type TopicProducerOptions,
  type WriteMark,
} from './topic-producer.ts';

/** Producers kept open; with more topics than this, those unused for longest close. */
const maxProducers = 32;

export interface TopicProducers {
  /** Resolves with the number of partitions that acknowledged. Throws what kafkajs throws. */
  send(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
    mark: WriteMark,
  ): Promise<number>;
  close(): Promise<void>;
}

export function createTopicProducers(open: OpenKafkajsClient, options: KafkajsClientOptions): TopicProducers {
  /** In the order of their last use. */
  const producers = new Map<string, TopicProducer>();

  function producerFor(topic: string): TopicProducer {
    const known = producers.get(topic);
    producers.delete(topic);
    if (known === undefined && producers.size >= maxProducers) closeLeastUsed();
    const producer = known ?? createTopicProducer({ topic, open, ...settingsOf(options) });
    producers.set(topic, producer);
    return producer;
  }

  function closeLeastUsed(): void {
    for (const [topic, producer] of producers) {
      if (!producer.isIdle()) continue;
      producers.delete(topic);
      producer.retire();
      return;
    }
  }

  return {
    async send(topic, partition, records, mark) {
      const producer = producerFor(topic);
      try {
        return await producer.send(partition, records, mark);
      } catch (error) {
        // The next send begins anew: with fresh connections, and from the whole list of brokers.
        if (isBeyondRepair(error) && producers.get(topic) === producer) {
          producers.delete(topic);
          producer.retire();
        }
        throw error;
      }
    },
    async close() {
      const open = [...producers.values()];
      producers.clear();
      await Promise.all(open.map((producer) => producer.close()));
    },
  };
}

function settingsOf(options: KafkajsClientOptions): Omit<TopicProducerOptions, 'topic' | 'open'> {
  const { brokers, requestTimeoutMs, acks = 'all', compression = 'none' } = options;
  return {
    seedCount: brokers.length,
    requestTimeoutMs,
    acks: ackNumbers[acks],
    compression: codecNumbers[compression],
  };
}

const survivable = new Set([
  'KafkaJSConnectionError',
  'KafkaJSConnectionClosedError',
  'KafkaJSBrokerNotFound',
]);
const noSuchTopic = new Set(['INVALID_TOPIC_EXCEPTION', 'TOPIC_AUTHORIZATION_FAILED']);

/**
 * kafkajs recovers from a broker that is gone, and from what the protocol names. It never drops a connection that does
 * not answer, and its own bugs after lost connections show as other errors.
 */
function isBeyondRepair(error: unknown): boolean {
  const { name = '', type } = rootCause(error);
  if (type !== undefined) return noSuchTopic.has(type);
  return !survivable.has(name);
}

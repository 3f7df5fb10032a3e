import { systemClock } from '../../ground/clock.ts';
import type { BrokerRecord, BrokerTraffic } from '../../publish/broker.ts';
import { isNotMade, isOfTopic, passingOf } from '../../publish/fault.ts';
import { type Answer, createAnswerTimes } from '../kafka/answer-times.ts';
import { ackNumbers, codecNumbers } from '../kafka/records/protocol-numbers.ts';
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
  /** The oldest send to a partition that is not given up. */
  oldest(topic: string, partition: number | undefined): SendUnderWay | undefined;
  /** The next sends begin with fresh connections; those under way are left on theirs. */
  renew(): void;
  lastAnswer(): Answer | undefined;
  traffic(): Omit<BrokerTraffic, 'connectionCount'>;
  close(): Promise<void>;
}

export interface SendUnderWay {
  readonly mark: WriteMark;
  /** When it began, on the monotonic clock. */
  readonly sinceMs: number;
  /** Not connected yet. */
  isConnecting(): boolean;
  /** Nothing is written of it any more; its producer drops what does not answer, and makes room for a new one. */
  giveUp(): void;
}

export function createTopicProducers(open: OpenKafkajsClient, options: KafkajsClientOptions): TopicProducers {
  /** In the order of their last use. */
  const producers = new Map<string, TopicProducer>();
  const answerTimes = createAnswerTimes(systemClock);
  const onAnswer = answerTimes.record;
  const sends = new Set<SendUnderWay & { readonly topic: string; readonly partition: number | undefined }>();

  function producerFor(topic: string): TopicProducer {
    const known = producers.get(topic);
    producers.delete(topic);
    if (known === undefined && producers.size >= maxProducers) closeLeastUsed();
    const producer = known ?? createTopicProducer({ topic, open, onAnswer, ...settingsOf(options) });
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
      // The next send begins anew: with fresh connections, and from the whole list of brokers.
      const replace = (): void => {
        if (producers.get(topic) !== producer) return;
        producers.delete(topic);
        producer.retire();
      };
      let stop = (_: Error): void => {};
      // kafkajs may take long to notice, looking for other brokers on its way.
      const givenUp = new Promise<never>((_, reject) => {
        stop = reject;
      });
      const send = {
        ...{ topic, partition, mark, isConnecting: producer.isConnecting },
        sinceMs: systemClock.monotonic(),
        giveUp() {
          mark.givenUp = true;
          replace();
          producer.dropSilent();
          stop(new Error('given up'));
        },
      };
      sends.add(send);
      try {
        return await Promise.race([producer.send(partition, records, mark), givenUp]);
      } catch (error) {
        if (isBeyondRepair(error)) replace();
        throw error;
      } finally {
        sends.delete(send);
      }
    },
    oldest(topic, partition) {
      for (const send of sends)
        if (send.topic === topic && send.partition === partition && send.mark.givenUp !== true) return send;
      return undefined;
    },
    renew() {
      const before = [...producers.values()];
      producers.clear();
      for (const producer of before) producer.retire();
    },
    lastAnswer: answerTimes.last,
    traffic() {
      const written = [...sends].filter(({ mark }) => mark.written && mark.givenUp !== true);
      return { inFlightRequests: written.length, requestLatencyAvg: answerTimes.mean() };
    },
    async close() {
      const open = [...producers.values()];
      producers.clear();
      await Promise.all(open.map((producer) => producer.close()));
    },
  };
}

function settingsOf(
  options: KafkajsClientOptions,
): Omit<TopicProducerOptions, 'topic' | 'open' | 'onAnswer'> {
  const { brokers, requestTimeoutMs, acks = 'all', compression = 'none', makesTopics = true } = options;
  return {
    makesTopics,
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

/**
 * kafkajs recovers from a broker that is gone, and from what the protocol names. It never drops a connection that does
 * not answer, and its own bugs after lost connections show as other errors.
 */
function isBeyondRepair(error: unknown): boolean {
  const { name = '', type, code } = rootCause(error);
  if (isNotMade({ cause: String(code) })) return false;
  if (type !== undefined) return isOfTopic(type) && passingOf(type) === undefined;
  return !survivable.has(name);
}

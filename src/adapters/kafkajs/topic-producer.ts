import type { Message, Producer } from 'kafkajs';
import type { BrokerRecord } from '../../publish/broker.ts';
import type { OpenKafkajsClient } from './kafkajs-client.ts';
import { connectThroughSeeds, disconnectWithin } from './kafkajs-connect.ts';

/** Kafka's view of a topic is asked for again after this time: a leader that hangs is held for ever otherwise. */
const metadataMaxAgeMs = 2000;

/** Whether kafkajs began to encode the records, which it does right before it writes them to a connected broker. */
export interface WriteMark {
  written: boolean;
}

export interface TopicProducer {
  /** Resolves with the number of partitions that acknowledged. Throws what kafkajs throws. */
  send(partition: number | undefined, records: readonly BrokerRecord[], mark: WriteMark): Promise<number>;
  isIdle(): boolean;
  /** Takes no part any more; its connections close when its sends under way are done. */
  retire(): void;
  /** Closes now. Resolves when it is closed, after a second at the latest. */
  close(): Promise<void>;
}

export interface TopicProducerOptions {
  readonly topic: string;
  readonly open: OpenKafkajsClient;
  readonly seedCount: number;
  readonly requestTimeoutMs: number;
  readonly acks: number;
  /** As kafkajs numbers it. */
  readonly compression: number;
}

/**
 * A producer of its own for each topic: kafkajs asks for the metadata of all topics of a producer at once, so one topic
 * that was deleted or forbidden would stop the others, the dead letter topic among them.
 */
export function createTopicProducer(options: TopicProducerOptions): TopicProducer {
  const client = options.open();
  const producer: Producer = client.kafka.producer({
    retry: { retries: 0 },
    metadataMaxAge: metadataMaxAgeMs,
    createPartitioner: client.createPartitioner,
  });
  let connecting: Promise<void> | undefined;
  let underWay = 0;
  let retired = false;

  const connect = (): Promise<void> => {
    connecting ??= connectThroughSeeds(producer, options.seedCount).catch((error: unknown) => {
      connecting = undefined;
      throw error;
    });
    return connecting;
  };

  const close = async (): Promise<void> => {
    await disconnectWithin(producer, 1000);
    client.destroySockets();
  };

  return {
    async send(partition, records, mark) {
      underWay++;
      try {
        await connect();
        const messages = records.map((record) => toMessage(record, partition, mark));
        const stored = await producer.send({
          topic: options.topic,
          messages,
          acks: options.acks,
          compression: options.compression,
          timeout: options.requestTimeoutMs,
        });
        return stored.length;
      } finally {
        underWay--;
        if (retired && underWay === 0) void close();
      }
    },
    isIdle: () => underWay === 0,
    retire() {
      retired = true;
      if (underWay === 0) void close();
    },
    close,
  };
}

function toMessage(record: BrokerRecord, partition: number | undefined, mark: WriteMark): Message {
  return {
    key: record.key,
    value: record.value,
    headers: record.headers, // An instrumentation of kafkajs reads and sets them before anything is sent.
    ...(partition !== undefined && { partition }),
    get timestamp() {
      mark.written = true;
      return String(record.timestamp);
    },
  };
}

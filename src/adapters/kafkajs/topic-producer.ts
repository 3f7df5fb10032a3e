import type { Message, Producer } from 'kafkajs';
import type { BrokerRecord } from '../../publish/broker.ts';
import { checkRecords } from '../kafka/records/record-batch.ts';
import type { OpenKafkajsClient } from './kafkajs-client.ts';
import { connectThroughSeeds, disconnectWithin } from './kafkajs-connect.ts';
import { rootCause } from './kafkajs-failure.ts';
import { toCarrier } from './wire/produce-patch.ts';

/** Kafka's view of a topic is asked for again after this time: a leader that hangs is held for ever otherwise. */
const metadataMaxAgeMs = 2000;

/** An answer that takes so long is one that may not come. */
const silentMs = 2_000;

/** How far kafkajs has got with the records of a send. */
export interface WriteMark {
  /** It began to encode them, which it does right before it writes them to a connected broker. */
  written: boolean;
  /** Node id of the broker that they go to. */
  target?: number;
  /** They are not to be written any more. */
  givenUp?: boolean;
}

export interface TopicProducer {
  /** Resolves with the number of partitions that acknowledged. Throws what kafkajs throws. */
  send(partition: number | undefined, records: readonly BrokerRecord[], mark: WriteMark): Promise<number>;
  isIdle(): boolean;
  /** Not connected yet. */
  isConnecting(): boolean;
  /** Drops the connections that do not answer. */
  dropSilent(): void;
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
  readonly makesTopics: boolean;
  readonly acks: number;
  /** As kafkajs numbers it. */
  readonly compression: number;
  /** A produce request was answered, so many milliseconds after it was written. */
  readonly onAnswer?: (ms: number) => void;
}

/** In Kafka's protocol. */
const produceKey = 0;

/**
 * A producer of its own for each topic: kafkajs asks for the metadata of all topics of a producer at once, so one topic
 * that was deleted or forbidden would stop the others, the dead letter topic among them.
 */
export function createTopicProducer(options: TopicProducerOptions): TopicProducer {
  const client = options.open();
  const marks = new WeakMap<Message, WriteMark>();
  let isConnected = false;
  const producer: Producer = client.kafka.producer({
    retry: { retries: 0 },
    metadataMaxAge: metadataMaxAgeMs,
    allowAutoTopicCreation: options.makesTopics,
    createPartitioner: () => {
      const partitionOf = client.createPartitioner();
      // Called with the very metadata by which kafkajs chooses the broker, right before it does.
      return (choice) => {
        const partition = partitionOf(choice);
        const mark = marks.get(choice.message);
        const chosen = mark && choice.partitionMetadata.find(({ partitionId }) => partitionId === partition);
        if (chosen !== undefined && mark !== undefined) mark.target = chosen.leader;
        return partition;
      };
    },
  });
  producer.on(producer.events.REQUEST, ({ payload: { apiKey, duration } }) => {
    if (apiKey === produceKey) options.onAnswer?.(duration);
  });
  let connecting: Promise<void> | undefined;
  let underWay = 0;
  let retired = false;
  let { canCarry } = client;

  const connect = (): Promise<void> => {
    connecting ??= connectThroughSeeds(producer, options.seedCount).then(
      () => {
        isConnected = true;
      },
      (error: unknown) => {
        connecting = undefined;
        throw error;
      },
    );
    return connecting;
  };

  const close = async (): Promise<void> => {
    await disconnectWithin(producer, 1000);
    client.destroySockets();
  };

  const produce = async (messages: Message[], mark: WriteMark): Promise<number> => {
    if (messages[0] !== undefined) marks.set(messages[0], mark);
    const { topic, acks, compression, requestTimeoutMs: timeout } = options;
    return (await producer.send({ topic, messages, acks, compression, timeout })).length;
  };

  /** All records as one message; `undefined` where it did not get through as it was. */
  const carry = async (
    partition: number,
    records: readonly BrokerRecord[],
    mark: WriteMark,
  ): Promise<number | undefined> => {
    const onEncode = (): void => markWritten(mark);
    try {
      const acknowledged = await produce(
        [toCarrier(partition, { records, compression: client.compression, onEncode })],
        mark,
      );
      return mark.written || acknowledged === 0 ? acknowledged : undefined;
    } catch (error) {
      if (mark.written || rootCause(error).code !== 'ERR_INVALID_ARG_TYPE') throw error;
      return undefined;
    }
  };

  return {
    async send(partition, records, mark) {
      underWay++;
      try {
        await connect();
        if (canCarry && partition !== undefined) {
          const acknowledged = await carry(partition, records, mark);
          if (acknowledged !== undefined) return acknowledged;
          // Something between svc and kafkajs made a message of its own out of ours: from now on each record is one.
          canCarry = false;
        }
        checkRecords(records);
        return await produce(
          records.map((record) => toMessage(record, partition, mark)),
          mark,
        );
      } finally {
        underWay--;
        if (retired && underWay === 0) void close();
      }
    },
    isIdle: () => underWay === 0,
    isConnecting: () => !isConnected,
    dropSilent: () => client.destroySilent(silentMs),
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
      markWritten(mark);
      return String(record.timestamp);
    },
  };
}

function markWritten(mark: WriteMark): void {
  // The queue has sent them again since.
  if (mark.givenUp === true) throw new Error('given up');
  mark.written = true;
}

import { type MessageToProduce, ProduceAcks, Producer, stringSerializers } from '@platformatic/kafka';
import { partitionOfKey } from '../../src/publish/partitioner.ts';
import { type HandWritten, message } from './hand-written.ts';

const options = (brokers: readonly string[]) => ({
  clientId: 'hand-written',
  bootstrapBrokers: [...brokers],
  retries: 0,
});

/** The client as its README shows it: one send an event. */
export function platformaticPerEvent(brokers: readonly string[], topic: string): HandWritten {
  const producer = new Producer({ ...options(brokers), serializers: stringSerializers });
  let outstanding = 0;
  return {
    connect: async () => void (await producer.metadata({ topics: [topic] })),
    publish() {
      const { key, value, headers } = message();
      outstanding++;
      const one = { topic, key, value: value as string, headers: headers as Record<string, string> };
      void producer.send({ messages: [one], acks: ProduceAcks.ALL }).then(() => outstanding--);
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.close(),
  };
}

type Bytes = MessageToProduce<Buffer, Buffer, Buffer, Buffer>;

/** The client used the best way that we know: buffers alone, a queue for each partition, up to 500 messages a send. */
export function platformaticPerPartition(
  brokers: readonly string[],
  topic: string,
  partitionCount: number,
): HandWritten {
  const producer = new Producer<Buffer, Buffer, Buffer, Buffer>(options(brokers));
  const queues = Array.from({ length: partitionCount }, () => ({ messages: [] as Bytes[], isBusy: false }));
  const names = new Map<string, Buffer>();
  let outstanding = 0;

  const nameOf = (name: string): Buffer => {
    const known = names.get(name) ?? Buffer.from(name);
    names.set(name, known);
    return known;
  };

  async function flush(queue: (typeof queues)[number]): Promise<void> {
    while (queue.messages.length > 0) {
      const messages = queue.messages.splice(0, 500);
      await producer.send({ messages, acks: ProduceAcks.ALL });
      outstanding -= messages.length;
    }
    queue.isBusy = false;
  }

  return {
    connect: async () => void (await producer.metadata({ topics: [topic] })),
    publish() {
      const { key, value, headers = {} } = message();
      const partition = partitionOfKey(key, partitionCount);
      const queue = queues[partition] as (typeof queues)[number];
      queue.messages.push({
        topic,
        partition,
        key: Buffer.from(key),
        value: Buffer.from(value as string),
        headers: new Map(
          Object.entries(headers).map(([name, text]) => [nameOf(name), Buffer.from(text as string)]),
        ),
      });
      outstanding++;
      if (queue.isBusy) return;
      queue.isBusy = true;
      setImmediate(() => void flush(queue));
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.close(),
  };
}

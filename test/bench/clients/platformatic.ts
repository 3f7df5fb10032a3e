import { type MessageToProduce, ProduceAcks, Producer, stringSerializers } from '@platformatic/kafka';
import { partitionOfKey } from '../../../src/publish/broker.ts';
import type { BenchClient, HandWritten, Target } from '../bench-client.ts';
import { handWrittenEvent } from '../hand-written-event.ts';

/** As many as svc puts into one send. */
const maxMessages = 500;

export const client: BenchClient = { perEvent, best };

const optionsOf = ({ brokers }: Target) => ({
  clientId: 'hand-written',
  bootstrapBrokers: [...brokers],
  retries: 0,
});

function perEvent(target: Target): HandWritten {
  const { topic } = target;
  const producer = new Producer({ ...optionsOf(target), serializers: stringSerializers });
  let outstanding = 0;
  return {
    connect: async () => void (await producer.metadata({ topics: [topic] })),
    publish(onAck) {
      outstanding++;
      const messages = [{ topic, ...handWrittenEvent() }];
      void producer.send({ messages, acks: ProduceAcks.ALL }).then(() => {
        outstanding--;
        onAck?.();
      });
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.close(),
  };
}

type Bytes = MessageToProduce<Buffer, Buffer, Buffer, Buffer>;

/** Buffers alone, a queue for each partition, and one send of up to 500 messages at a time. */
function best(target: Target): HandWritten {
  const { topic, partitionCount } = target;
  const producer = new Producer<Buffer, Buffer, Buffer, Buffer>(optionsOf(target));
  const queues = Array.from({ length: partitionCount }, () => ({
    messages: [] as Bytes[],
    onAcks: [] as ((() => void) | undefined)[],
    isBusy: false,
  }));
  const names = new Map<string, Buffer>();
  let outstanding = 0;

  const nameOf = (name: string): Buffer => {
    const known = names.get(name) ?? Buffer.from(name);
    names.set(name, known);
    return known;
  };

  async function flush(queue: (typeof queues)[number]): Promise<void> {
    while (queue.messages.length > 0) {
      const messages = queue.messages.splice(0, maxMessages);
      const onAcks = queue.onAcks.splice(0, maxMessages);
      await producer.send({ messages, acks: ProduceAcks.ALL });
      outstanding -= messages.length;
      for (const onAck of onAcks) onAck?.();
    }
    queue.isBusy = false;
  }

  return {
    connect: async () => void (await producer.metadata({ topics: [topic] })),
    publish(onAck) {
      const { key, value, headers } = handWrittenEvent();
      const partition = partitionOfKey(key, partitionCount);
      const queue = queues[partition] as (typeof queues)[number];
      queue.messages.push({
        ...{ topic, partition, key: Buffer.from(key), value: Buffer.from(value) },
        headers: new Map(Object.entries(headers).map(([name, text]) => [nameOf(name), Buffer.from(text)])),
      });
      queue.onAcks.push(onAck);
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

import kafkajs, { type Message, type Producer } from 'kafkajs';
import { partitionOfKey } from '../../../src/publish/broker.ts';
import type { BenchClient, HandWritten, Target } from '../bench-client.ts';
import { handWrittenEvent } from '../hand-written-event.ts';

/** As many as svc puts into one send. */
const maxMessages = 500;

export const client: BenchClient = { perEvent, best };

function producerOf({ brokers }: Target): Producer {
  const kafka = new kafkajs.Kafka({
    brokers: [...brokers],
    retry: { retries: 0 },
    logLevel: kafkajs.logLevel.NOTHING,
  });
  return kafka.producer({
    retry: { retries: 0 },
    allowAutoTopicCreation: false,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  });
}

function perEvent(target: Target): HandWritten {
  const producer = producerOf(target);
  let outstanding = 0;
  return {
    connect: () => producer.connect(),
    publish(onAck) {
      outstanding++;
      void producer.send({ topic: target.topic, acks: -1, messages: [handWrittenEvent()] }).then(() => {
        outstanding--;
        onAck?.();
      });
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.disconnect(),
  };
}

/** A queue for each partition, and one send of up to 500 messages at a time. */
function best(target: Target): HandWritten {
  const producer = producerOf(target);
  const queues = Array.from({ length: target.partitionCount }, () => ({
    messages: [] as Message[],
    onAcks: [] as ((() => void) | undefined)[],
    isBusy: false,
  }));
  let outstanding = 0;

  async function flush(queue: (typeof queues)[number]): Promise<void> {
    while (queue.messages.length > 0) {
      const messages = queue.messages.splice(0, maxMessages);
      const onAcks = queue.onAcks.splice(0, maxMessages);
      await producer.send({ topic: target.topic, acks: -1, messages });
      outstanding -= messages.length;
      for (const onAck of onAcks) onAck?.();
    }
    queue.isBusy = false;
  }

  return {
    connect: () => producer.connect(),
    publish(onAck) {
      const event = handWrittenEvent();
      const partition = partitionOfKey(event.key, target.partitionCount);
      const queue = queues[partition] as (typeof queues)[number];
      queue.messages.push({ ...event, partition });
      queue.onAcks.push(onAck);
      outstanding++;
      if (queue.isBusy) return;
      queue.isBusy = true;
      setImmediate(() => void flush(queue));
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.disconnect(),
  };
}

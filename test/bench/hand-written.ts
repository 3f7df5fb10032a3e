import type { Kafka, Message, Producer } from 'kafkajs';
import { partitionOfKey } from '../../src/publish/partitioner.ts';
import { payload } from './payload.ts';

/** What an application would write by itself: the same envelope, the same headers, the same key. */
export interface HandWritten {
  connect(): Promise<void>;
  publish(): void;
  readonly outstanding: number;
  close(): Promise<void>;
}

let lastId = 0;

export function message(): Message & { key: string } {
  const eventId = String(281_474_976_710_656 + lastId++);
  const now = new Date().toISOString();
  const envelope = {
    eventId,
    eventType: 'ORDER_CREATED',
    occurredAt: now,
    publishedAt: now,
    severity: 'INFO',
    metadata: {
      source: { serviceName: 'orders', serviceVersion: '1.4.0', hostname: 'host-1' },
      actor: { userId: null, sessionId: null },
      trace: { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7', parentSpanId: null },
      correlationId: null,
      clientIp: null,
      tags: {},
    },
    payload,
  };
  return {
    key: `order-${lastId}`,
    value: JSON.stringify(envelope),
    headers: {
      eventId,
      eventType: 'ORDER_CREATED',
      'content-type': 'application/json',
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    },
  };
}

function producerOf(kafka: Kafka): Producer {
  return kafka.producer({ retry: { retries: 0 }, allowAutoTopicCreation: false });
}

/** The client as its README shows it: one send an event. */
export function sendPerEvent(kafka: Kafka, topic: string): HandWritten {
  const producer = producerOf(kafka);
  let outstanding = 0;
  return {
    connect: () => producer.connect(),
    publish() {
      outstanding++;
      void producer.send({ topic, acks: -1, messages: [message()] }).then(() => outstanding--);
    },
    get outstanding() {
      return outstanding;
    },
    close: () => producer.disconnect(),
  };
}

/** The client used the best way that we know: a queue for each partition, one send of up to 500 messages at a time. */
export function sendPerPartition(kafka: Kafka, topic: string, partitionCount: number): HandWritten {
  const producer = producerOf(kafka);
  const queues = Array.from({ length: partitionCount }, (_, partition) => ({
    partition,
    messages: [] as Message[],
    isBusy: false,
  }));
  let outstanding = 0;

  async function flush(queue: (typeof queues)[number]): Promise<void> {
    while (queue.messages.length > 0) {
      const messages = queue.messages.splice(0, 500);
      await producer.send({ topic, acks: -1, messages });
      outstanding -= messages.length;
    }
    queue.isBusy = false;
  }

  return {
    connect: () => producer.connect(),
    publish() {
      const one = message();
      const partition = partitionOfKey(one.key, partitionCount);
      const queue = queues[partition] as (typeof queues)[number];
      one.partition = partition;
      queue.messages.push(one);
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

import { randomBytes } from 'node:crypto';
import kafkajs, { type Consumer, type Kafka, type Producer } from 'kafkajs';
import type { ConsumedEvent } from '../../src/consume/handle-event.ts';
import type { TestKafka } from '../support/kafka.ts';

/** An envelope as svc writes it. */
export function envelope(eventId: string, more: Partial<ConsumedEvent> = {}): ConsumedEvent {
  return {
    ...{ eventId, eventType: 'ORDER_PLACED', severity: 'INFO' as const },
    ...{ occurredAt: '2026-11-25T00:00:00.000Z', publishedAt: '2026-11-25T00:00:00.001Z' },
    metadata: {
      source: { serviceName: 'shop', serviceVersion: null, hostname: null },
      actor: { userId: 'u-1', sessionId: 's-1' },
      trace: { traceId: null, spanId: null, parentSpanId: null },
      ...{ correlationId: 'c-1', clientIp: null, tags: {} },
    },
    payload: { id: eventId },
    ...more,
  };
}

export function record(event: ConsumedEvent, key = event.eventId, partition?: number) {
  return {
    ...{ key, value: JSON.stringify(event), ...(partition !== undefined && { partition }) },
    headers: { eventId: event.eventId, eventType: event.eventType, 'content-type': 'application/json' },
  };
}

export const newName = (what: string): string => `${what}-${randomBytes(5).toString('hex')}`;

/** A client of kafkajs; what it has made ends with `close`. */
export interface TestClient {
  readonly kafka: Kafka;
  producer(): Promise<Producer>;
  consumer(groupId: string): Consumer;
  close(): Promise<void>;
}

export function testClient({ brokers }: TestKafka): TestClient {
  const kafka = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING });
  const ends: (() => Promise<void>)[] = [];
  return {
    kafka,
    async producer() {
      const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
      ends.push(() => producer.disconnect());
      await producer.connect();
      return producer;
    },
    consumer: (groupId) =>
      kafka.consumer({ groupId, maxWaitTimeInMs: 100, sessionTimeout: 10_000, heartbeatInterval: 500 }),
    async close() {
      await Promise.all(ends.map((end) => end()));
    },
  };
}

import type { SendFailure } from '../../src/publish/broker.ts';
import { toRecord } from '../../src/publish/main/queue.ts';
import type { FailedEvent } from '../../src/publish/tier.ts';
import { EventValue, jsonForm } from '../../src/serialize/serializer.ts';

export const away: SendFailure = { kind: 'retriable', cause: 'ECONNREFUSED', message: 'cannot reach Kafka' };

/** An event as it leaves the main topic. */
export function failedEvent(eventId: string, options: Partial<FailedEvent> = {}): FailedEvent {
  const event = {
    eventId,
    eventType: 'ORDER_CREATED',
    topic: undefined,
    key: `key-${eventId}`,
    headers: {
      eventId,
      eventType: 'ORDER_CREATED',
      'content-type': 'application/json',
      traceparent: '00-a-b-01',
      tenant: 'acme',
    },
    value: new EventValue(jsonForm, `{"eventId":"${eventId}","eventType":"ORDER_CREATED","publishedAt":"`, [
      '","payload":',
      '{"text":"\\",\\"originalEvent\\":","n":1.50}',
      '}',
    ]),
  };
  return {
    event,
    topic: 'orders',
    record: toRecord(event, 1_780_000_000_000),
    attempts: 4,
    failure: away,
    ...options,
  };
}

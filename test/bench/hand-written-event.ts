import { payload } from './payload.ts';

export interface HandWrittenEvent {
  readonly key: string;
  readonly value: string;
  readonly headers: Record<string, string>;
}

let lastId = 0;

/** What an application would write by itself: the same envelope, the same headers, the same key. */
export function handWrittenEvent(): HandWrittenEvent {
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
    key: eventId,
    value: JSON.stringify(envelope),
    headers: {
      eventId,
      eventType: 'ORDER_CREATED',
      'content-type': 'application/json',
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    },
  };
}

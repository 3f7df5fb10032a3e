import { AssertionError } from 'node:assert';
import { readEnvelope } from '../consumer/read-envelope.ts';
import type { Severity } from '../ground/event-fields.ts';

/** One published event, as its consumers read it. What was not known is `null`. */
export interface PublishedEvent<Payload = Record<string, unknown>> {
  readonly eventId: string;
  readonly eventType: string;
  /** ISO 8601, UTC: when the call finished. */
  readonly occurredAt: string;
  /** ISO 8601, UTC: when the record was handed to the broker, or to the outbox. */
  readonly publishedAt: string;
  readonly severity: Severity;
  readonly metadata: {
    readonly source: {
      readonly serviceName: string | null;
      readonly serviceVersion: string | null;
      readonly hostname: string | null;
    };
    readonly actor: { readonly userId: string | null; readonly sessionId: string | null };
    readonly trace: {
      readonly traceId: string | null;
      readonly spanId: string | null;
      readonly parentSpanId: string | null;
    };
    readonly correlationId: string | null;
    readonly clientIp: string | null;
    readonly tags: Readonly<Record<string, string>>;
  };
  readonly payload: Payload;
}

/** Throws an `AssertionError` that names the topic, where the value is no JSON. */
export function parseEvent<Payload>(
  topic: string,
  record: {
    readonly value: Buffer;
    readonly headers: Readonly<Record<string, string>>;
    readonly timestamp?: number;
  },
): PublishedEvent<Payload> {
  try {
    return readEnvelope(record);
  } catch {
    throw new AssertionError({ message: `a record in topic "${topic}" is not JSON` });
  }
}

import type { Severity } from '../ground/event-fields.ts';

/** The service that publishes. What is not known is `null`. */
export interface Source {
  readonly serviceName: string | null;
  readonly serviceVersion: string | null;
  readonly hostname: string | null;
}

export interface Trace {
  readonly traceId: string | null;
  readonly spanId: string | null;
  readonly parentSpanId: string | null;
}

/** Who and where from, at the time of the call. What is not known is `null`, never a made-up value. */
export interface Origin {
  readonly userId: string | null;
  readonly sessionId: string | null;
  readonly correlationId: string | null;
  readonly clientIp: string | null;
  /** `null` where there are none: written as `{}`. */
  readonly tags: Readonly<Record<string, string>> | null;
}

/** One event before protection. Never leaves the process: only a `ProtectedEnvelope` can be serialized. */
export interface Envelope {
  readonly eventId: string;
  readonly template: EnvelopeTemplate;
  /** ISO 8601, UTC, milliseconds: when the call finished. */
  readonly occurredAt: string;
  readonly trace: Trace;
  readonly origin: Origin;
  readonly payload: unknown;
}

/** What never changes between the events of one target, serialized once at start. */
export interface EnvelopeTemplate {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
  /** `,"eventType":"…","occurredAt":"` */
  readonly afterEventId: string;
  /** `","severity":"INFO","metadata":{"source":{…},"actor":{"userId":` */
  readonly afterPublishedAt: string;
}

// serialize/: a protected envelope becomes bytes, once.

import type { ProtectedEnvelope } from '../protect/protect.ts';
import type { EventValue } from './event-value.ts';

/** One event, serialized once: the Kafka record, the DLQ message, the backup and the outbox row hold these same bytes. */
export interface SerializedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: the default topic. */
  readonly topic: string | undefined;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: EventValue;
}

/**
 * Header of a record that is JSON for the time being, as the schema registry has not told the id of its schema yet, whose name is the
 * value. It is encoded before it is sent, wherever it waited.
 */
export const schemaHeader = 'svc-avro-schema';

/** What a record has beside its value. */
export interface RecordParts {
  readonly topic: string;
  /** `undefined`: the application gave none, and the event id is in its place. */
  readonly key?: string | undefined;
  /** The application's own. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly trace: { readonly traceparent: string; readonly tracestate?: string | undefined };
}

/** PORT: turns a protected envelope into bytes. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /** Throws an `SvcError` without a value where the event has no such form: it is refused. */
  serialize(envelope: ProtectedEnvelope, record: RecordParts): EventValue;
}

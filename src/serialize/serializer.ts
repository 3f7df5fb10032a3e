// serialize/: a protected envelope becomes bytes, once.

import type { ProtectedEnvelope } from '../protect/protect.ts';

/** One event, serialized once: the Kafka record, the DLQ message, the backup and the outbox row hold these same bytes. */
export interface SerializedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: the default topic. */
  readonly topic: string | undefined;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: EventText;
}

/** The text of an event, but for the value of `publishedAt`, which is set when the record is handed to the broker client. */
export interface EventText {
  readonly form: EventForm;
  readonly beforePublishedAt: string;
  /** In pieces: to join them would copy the payload once more. */
  readonly afterPublishedAt: readonly string[];
}

/**
 * Header of a record that is JSON for the time being, as the schema registry has not told the id of its schema yet, whose name is the
 * value. It is encoded before it is sent, wherever it waited.
 */
export const schemaHeader = 'svc-avro-schema';

/** What all texts of one form have in common. */
export interface EventForm {
  /** Of the record, so that readers know the form: `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  /** `latin1`: the form is a binary one, and a character stands for a byte. */
  readonly encoding: 'utf8' | 'latin1';
  /** The value of `publishedAt`. */
  publishedAt(nowMs: number): string;
  /** The header that holds `publishedAt`, where the text does not. */
  readonly publishedAtHeader?: string;
  /** The event as JSON has it, for people: of a binary form. */
  toJson?(value: Buffer): unknown;
}

/** What a record has beside its value. */
export interface RecordParts {
  readonly topic: string;
  /** `undefined`: the application gave none, and the event id is in its place. */
  readonly key?: string | undefined;
  /** The application's own. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly trace: { readonly traceparent: string; readonly tracestate?: string | undefined };
}

/** PORT: turns a protected envelope into text. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /** Throws an `SvcError` without a value where the event has no such form: it is refused. */
  serialize(envelope: ProtectedEnvelope, record: RecordParts): EventText;
}

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
  readonly beforePublishedAt: string;
  /** In pieces: to join them would copy the payload once more. */
  readonly afterPublishedAt: readonly string[];
}

/** PORT: turns a protected envelope into text. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /** Value of the `content-type` header. */
  readonly contentType: string;
  serialize(envelope: ProtectedEnvelope): EventText;
}

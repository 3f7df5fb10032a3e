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

/** PORT: turns a protected envelope into bytes. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /**
   * Throws an `SvcError` without a value where the payload has no such form: the event is refused.
   * @param topic of the record
   */
  serialize(envelope: ProtectedEnvelope, topic: string): EventValue;
}

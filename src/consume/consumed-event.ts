import { createHash } from 'node:crypto';
import {
  type CloudEvent,
  cloudEventIn,
  type DecryptionKeys,
  type DecryptOptions,
  decryptFields,
  envelopeOf,
} from '../consumer/decrypt-fields.ts';
import { parseBounded } from '../ground/bounds.ts';
import { SvcError } from '../ground/errors.ts';
import type { Severity } from '../ground/event-fields.ts';

/** A record as a Kafka client returned it. */
export interface ConsumedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  /** If the client reports it. */
  readonly leaderEpoch?: number;
}

/** An event as its producer wrote it, decrypted if there are keys. Unknown values are `null`. */
export interface ConsumedEvent<Payload = unknown> {
  readonly eventId: string;
  readonly eventType: string;
  /** ISO 8601, UTC: when the call finished. */
  readonly occurredAt: string;
  /** ISO 8601, UTC: when the record was handed to the broker or the outbox. */
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

export interface ReadingOptions {
  /** For events in Avro: the result of `createAvroReader` of `svc/avro`. */
  readonly avro?: { read(value: Uint8Array): Promise<unknown> } | undefined;
  /** For events with encrypted fields: the result of `createDecryptionKeys`. Without it they stay `ENC(…)`. */
  readonly keys?: DecryptionKeys | undefined;
  readonly decrypt?: DecryptOptions | undefined;
}

export interface ReadEvent {
  /** As it stands in the topic, not decrypted. */
  readonly document: unknown;
  readonly event: ConsumedEvent;
  /** Unique among all events. */
  readonly inboxId: string;
}

/** Reads JSON, Avro and CloudEvents. Rejects with an `SvcError`; `isLater` tells whether a retry may succeed. */
export async function readEvent(
  record: Pick<ConsumedRecord, 'headers'> & { readonly value: Buffer; readonly timestamp?: number },
  { avro, keys, decrypt }: ReadingOptions,
): Promise<ReadEvent> {
  const { value, headers, timestamp = Number.NaN } = record;
  const document = await parsed(value, headers['content-type'], avro);
  const cloudEvent = cloudEventIn(document, headers);
  const envelope = cloudEvent === undefined ? document : envelopeOf(cloudEvent, timestamp);
  if (!isEnvelope(envelope))
    throw unreadable(
      'it is not an envelope of svc (eventId, eventType, metadata, payload): a newer version or another producer wrote it',
    );
  const event = keys === undefined ? envelope : await decryptFields(envelope, keys, decrypt);
  const { eventId } = event;
  const isOwn = cloudEvent === undefined || headers.eventId === eventId;
  return { document, event, inboxId: isOwn ? eventId : idOfOther(cloudEvent) };
}

/** Ids of other CloudEvents producers are unique per source only. */
function idOfOther({ source, id }: CloudEvent): string {
  return createHash('sha256')
    .update(JSON.stringify([source, id]))
    .digest('hex');
}

async function parsed(
  value: Buffer,
  type: string | undefined,
  avro: ReadingOptions['avro'],
): Promise<unknown> {
  // Confluent's format starts with a byte that never starts JSON.
  if (value[0] !== 0) {
    const found = parseBounded(value.toString());
    if (found !== undefined) return found;
    throw unreadable(
      `it is neither JSON nor Avro${type === undefined ? '' : ` (content-type ${shown(type)})`}`,
    );
  }
  if (avro === undefined)
    throw unreadable(
      'it is Avro: pass consumeOnce a reader, { avro: createAvroReader({ url }) } of svc/avro',
    );
  return avro.read(value);
}

/** Whether a registry or key service is unavailable for now. */
export function isLater(error: unknown): boolean {
  return (
    error instanceof SvcError &&
    (error.code === 'SVC_SERIALIZE_REGISTRY_AWAY' || error.code === 'SVC_PROTECT_KEY_UNAVAILABLE')
  );
}

function isEnvelope(value: unknown): value is ConsumedEvent {
  if (typeof value !== 'object' || value === null) return false;
  const { eventId, eventType, metadata } = value as Record<string, unknown>;
  return (
    typeof eventId === 'string' &&
    typeof eventType === 'string' &&
    typeof metadata === 'object' &&
    metadata !== null &&
    Object.hasOwn(value, 'payload')
  );
}

function unreadable(says: string): SvcError {
  return new SvcError('SVC_CONSUME_UNREADABLE', `the value of a record cannot be read: ${says}`);
}

function shown(type: string): string {
  return /^[\w./+;= -]{1,80}$/.test(type) ? type : 'unknown';
}

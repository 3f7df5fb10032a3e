import { isUtf8 } from 'node:buffer';
import { toEnvelope } from '../envelope/envelope.ts';
import { parseObject } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from './broker.ts';
import type { StoredEvent } from './recovery-source.ts';

/** An event that did not reach its topic. */
export interface FailedEvent {
  readonly event: SerializedEvent;
  /** The topic it was meant for. */
  readonly topic: string;
  /** Each tier keeps these bytes, key and headers. A restore sends them unchanged. */
  readonly record: BrokerRecord;
  /** Sends that were tried. 0: it was never sent (buffer full, breaker open, too late, svc stopped). */
  readonly attempts: number;
  /** End of its delivery time, on the monotonic clock. A tier in the same cluster does not try after it. */
  readonly deadlineAtMs?: number;
  /** `cause` names the root cause. `message` is one line for an operator, without values. */
  readonly failure: SendFailure;
}

/** An event that could not be published, with everything that a restore needs to send the same bytes to the same topic. */
export interface BackupEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** The topic it was meant for. */
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The record value: protected, serialized, immutable. */
  readonly value: Buffer;
  /** The event as JSON, if `value` is binary. */
  readonly document?: unknown;
  /** Class name or code of the root cause. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly backedUpAt: number;
}

/**
 * PORT: stores events that neither their topic nor the dead letter topic took. Register your own with `registerBackupStrategy`.
 *
 * - `store` resolves when the event is stored durably, and rejects otherwise: the next strategy is tried then. Error messages may
 *   reach the log, so they must hold no payload.
 * - Any number of events may be stored at once. A `store` without an answer within 30 s has failed.
 * - `storeSync` stores all remaining events when the process ends, or none of them, before it returns. It throws when it cannot. A
 *   strategy without it is skipped then.
 * - `close` ends stores in flight, at `deadlineMs` at the latest.
 */
export interface EventBackupStrategy {
  /** For log lines. */
  readonly name: string;
  store(event: BackupEvent): Promise<void>;
  storeSync?(events: readonly BackupEvent[]): void;
  close?(deadlineMs: number): Promise<void>;
}

const registered = shared('backup-strategies', () => new Set<EventBackupStrategy>());

/**
 * Adds a backup strategy. It is tried before the configured ones (S3, then local files), in the order of registration, and works
 * without them. Returns a function that removes it.
 *
 * @throws SvcError `SVC_PUBLISH_BACKUP_STRATEGY` for an invalid strategy
 */
export function registerBackupStrategy(strategy: EventBackupStrategy): () => void {
  const { name, store, storeSync, close } = (strategy ?? {}) as Partial<EventBackupStrategy>;
  const isOptional = (method: unknown): boolean => method === undefined || typeof method === 'function';
  if (typeof name !== 'string' || name === '' || typeof store !== 'function')
    throw badStrategy('it needs a name and a function store(event)');
  if (!isOptional(storeSync) || !isOptional(close))
    throw badStrategy('storeSync and close must be functions, or omitted');
  registered.add(strategy);
  return () => void registered.delete(strategy);
}

function badStrategy(why: string): SvcError {
  return new SvcError('SVC_PUBLISH_BACKUP_STRATEGY', `not a backup strategy: ${why}`);
}

/** Includes those registered with another copy of this package. */
export function registeredBackupStrategies(): readonly EventBackupStrategy[] {
  return [...registered];
}

const safeId = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
/** Windows opens a device for these, whatever the extension. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)$/i;

/** The event id if every file system and object store accepts it as a name; otherwise a hash of it. */
export function backupName(eventId: unknown): string {
  if (typeof eventId === 'string' && safeId.test(eventId) && !deviceName.test(eventId)) return eventId;
  const text = typeof eventId === 'string' ? eventId : typeof eventId;
  return `h-${nodeCrypto().createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}

type Fields = Readonly<Record<string, unknown>>;

/** The route of a bare event file, stored under the same name in `routes/`. */
export function encodeRoute({ topic, key, headers, reason, backedUpAt }: BackupEvent): Buffer {
  const route = {
    topic,
    key,
    headers,
    backupReason: reason,
    backupTimestamp: new Date(backedUpAt).toISOString(),
  };
  return Buffer.from(`${JSON.stringify(route)}\n`);
}

/** A line of a segment: one event, its value as a string or, if it is not UTF-8, in Base64. */
export function encodeLine(event: BackupEvent): string {
  const { eventId, eventType, topic, key, headers, reason, backedUpAt, value } = event;
  const bytes = isUtf8(value) ? { value: value.toString() } : { valueBase64: value.toString('base64') };
  const backupTimestamp = new Date(backedUpAt).toISOString();
  return `${JSON.stringify({ eventId, eventType, topic, key, headers, backupReason: reason, backupTimestamp, ...bytes })}\n`;
}

/** `svc.broker.backup.format: record`: the fields of the specification, then what a restore needs. */
export function encodeRecord(event: BackupEvent): Buffer {
  const { eventId, eventType, topic, key, headers, reason, backedUpAt, value } = event;
  const text = isUtf8(value) ? value.toString() : undefined;
  const content = event.document === undefined ? contentOf(text ?? '', event) : (event.document as Fields);
  const record = {
    eventId,
    eventType,
    occurredAt: content.occurredAt ?? null,
    backupReason: reason,
    backupTimestamp: new Date(backedUpAt).toISOString(),
    payload: content.payload ?? null,
    topic,
    key,
    headers,
    ...(text === undefined ? { valueBase64: value.toString('base64') } : { value: text }),
  };
  return Buffer.from(`${JSON.stringify(record)}\n`);
}

/** Unreadable content is stored as well. */
function contentOf(text: string, { headers, backedUpAt }: BackupEvent): Fields {
  try {
    return toEnvelope(parseObject(text) ?? {}, headers, backedUpAt) as Fields;
  } catch {
    return {};
  }
}

/** An event from a record file or a line of a segment. `undefined`: the text is neither. */
export function decodeRecord(text: string, place: string): StoredEvent | undefined {
  const record = parseObject(text);
  if (record === undefined) return undefined;
  const { eventId, value, valueBase64 } = record;
  const bytes =
    typeof value === 'string'
      ? Buffer.from(value)
      : typeof valueBase64 === 'string'
        ? Buffer.from(valueBase64, 'base64')
        : undefined;
  if (typeof eventId !== 'string' || bytes === undefined) return undefined;
  return {
    place,
    eventId,
    eventType: textOf(record.eventType) ?? '',
    value: bytes,
    ...routeOf(record, eventId),
  };
}

/** An event from a bare event file and its route, if any. `undefined`: the file holds no event. */
export function decodeEvent(
  value: Buffer,
  route: string | undefined,
  place: string,
): StoredEvent | undefined {
  const event = parseObject(value.toString());
  const fields = route === undefined ? undefined : parseObject(route);
  // The route first: Avro and CloudEvents can be identified by it alone.
  const headers = (fields?.headers ?? {}) as Record<string, unknown>;
  const eventId = textOf(headers.eventId) ?? textOf(event?.eventId);
  if (eventId === undefined) return undefined;
  const eventType = textOf(headers.eventType) ?? textOf(event?.eventType) ?? '';
  if (fields !== undefined) return { place, eventId, eventType, value, ...routeOf(fields, eventId) };
  return {
    place,
    eventId,
    eventType,
    value,
    topic: undefined,
    key: eventId,
    headers: { eventId, eventType, 'content-type': 'application/json' },
    storedAt: 0,
    reason: undefined,
  };
}

function routeOf(
  fields: Fields,
  eventId: string,
): Pick<StoredEvent, 'topic' | 'key' | 'headers' | 'storedAt' | 'reason'> {
  const { topic, key, headers, backupTimestamp, backupReason } = fields;
  const time = typeof backupTimestamp === 'string' ? Date.parse(backupTimestamp) : Number.NaN;
  return {
    topic: textOf(topic),
    // An empty string is also a key.
    key: key === null || typeof key === 'string' ? key : eventId,
    headers: textsOf(headers),
    storedAt: Number.isNaN(time) ? 0 : time,
    reason: textOf(backupReason),
  };
}

function textsOf(value: unknown): Record<string, string> {
  const entries = Object.entries(typeof value === 'object' && value !== null ? value : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

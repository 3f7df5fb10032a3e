import { isUtf8 } from 'node:buffer';
import { parseObject } from '../../ground/bounds.ts';
import type { BrokerRecord } from '../broker.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../recovery-source.ts';
import type { FailedEvent } from '../tier.ts';
import type { TopicReader, TopicRecord } from '../topic-reader.ts';

/** `operations`: shape A of the specification; `recovery`: shape B. */
export type DlqFormat = 'operations' | 'recovery';

/** Headers that svc adds to the event's own. Recovery removes them. */
const originalTopic = 'originalTopic';
const exceptionType = 'exceptionType';
const originalContentType = 'originalContentType';
/** Only of the smaller forms. */
const letterForm = 'deadLetterForm';
const letterEventId = 'deadLetterEventId';
const exceptionMessage = 'exceptionMessage';
const originalPartition = 'originalPartition';
const originalOffset = 'originalOffset';
const added: readonly string[] = [
  ...[originalTopic, exceptionType, originalContentType, letterForm, letterEventId],
  ...[exceptionMessage, originalPartition, originalOffset],
];
const contentType = 'content-type';
const json = 'application/json';
const rawEvent = ',"originalEvent":';

/** The dead letter of an event. It has the event's key, so the dead letters of one key stay in order. */
export function toDlqRecord(
  { event, topic, record, attempts, failure }: FailedEvent,
  format: DlqFormat,
  nowMs: number,
): BrokerRecord {
  const text = isUtf8(record.value) ? record.value.toString() : undefined;
  const original = record.headers[contentType];
  const headers: Record<string, string> = {
    ...record.headers,
    [contentType]: json,
    [originalTopic]: topic,
    [exceptionType]: headerText(failure.cause),
    ...(original !== undefined && original !== json && { [originalContentType]: original }),
  };
  // Binary values (Avro) are Base64 in shape A, whatever the setting, because they have no JSON form.
  const isRecovery = format === 'recovery' && text !== undefined && isJson(text);
  const head = { eventId: event.eventId, originalTopic: topic };
  const value = isRecovery
    ? `${JSON.stringify({
        ...head,
        failureReason: `${failure.cause}: ${failure.message}`,
        failureTimestamp: new Date(nowMs).toISOString(),
        retryCount: Math.max(0, attempts - 1),
      }).slice(0, -1)}${rawEvent}${text}}`
    : JSON.stringify({
        ...head,
        originalPayload: text ?? record.value.toString('base64'),
        ...(text === undefined && {
          originalPayloadEncoding: 'base64',
          originalEvent: toJson(event, record),
        }),
        exceptionType: failure.cause,
        exceptionMessage: failure.message,
        failedAt: nowMs,
      });
  return { key: record.key, value: Buffer.from(value), headers, timestamp: nowMs };
}

/** For people, beside the bytes of a binary form. Recovery uses the bytes. */
function toJson({ value: { form } }: FailedEvent['event'], { value }: BrokerRecord): unknown {
  return form.toJson?.(value);
}

/** Where a consumer found the event. */
interface OriginalPlace {
  readonly partition: number;
  readonly offset: bigint;
}

/**
 * A smaller dead letter, for a topic that refuses `toDlqRecord`'s as too large:
 * - `value`: the event's own bytes and headers, the rest in headers. Recovery restores the event.
 * - `place`: no payload, and of the event's headers only its type. It says where the event is. Recovery lists it as unreadable.
 */
export function toSmallerDlqRecord(
  { event, topic, record, failure }: FailedEvent,
  form: 'value' | 'place',
  nowMs: number,
  place?: OriginalPlace,
): BrokerRecord {
  const { eventType } = record.headers;
  const eventId = headerText(event.eventId);
  const own = eventType === undefined ? { eventId } : { eventId, eventType: headerText(eventType) };
  const headers: Record<string, string> = {
    ...(form === 'value' ? record.headers : own),
    [originalTopic]: topic,
    [exceptionType]: headerText(failure.cause),
    [exceptionMessage]: headerText(failure.message),
    [letterForm]: form,
    [letterEventId]: eventId,
    ...(place && { [originalPartition]: `${place.partition}`, [originalOffset]: `${place.offset}` }),
  };
  if (form === 'value') return { key: record.key, value: record.value, headers, timestamp: nowMs };
  const value = JSON.stringify({
    ...{ eventId, originalTopic: topic },
    ...(place && { [originalPartition]: place.partition, [originalOffset]: String(place.offset) }),
    ...{ payloadOmitted: true, originalBytes: record.value.length },
    ...{
      exceptionType: headers[exceptionType],
      exceptionMessage: headers[exceptionMessage],
      failedAt: nowMs,
    },
  });
  const key = record.key !== null && Buffer.byteLength(record.key) <= longestKeyBytes ? record.key : null;
  headers[contentType] = json;
  return { key, value: Buffer.from(value), headers, timestamp: nowMs };
}

/** A longer key is left out with the payload. */
const longestKeyBytes = 1_024;

type DlqRecord = Omit<TopicRecord, 'partition' | 'offset'>;

/** The events in a dead letter topic, in either shape. */
export function createDlqSource(topic: string, reader: TopicReader): RecoverySource {
  /** Of the last batch, for `done`. */
  let records = new Map<string, TopicRecord>();

  return {
    name: `dead letter topic ${topic}`,
    open: (forRecovery) => reader.open(forRecovery),
    count: () => reader.count(),
    async *read(size) {
      for await (const batch of reader.read(size)) {
        records = new Map();
        const events: StoredEvent[] = [];
        const unreadable: Unreadable[] = [];
        for (const record of batch) {
          const place = `${topic}-${record.partition}@${record.offset}`;
          const event = fromDlqRecord(record, place);
          if (typeof event === 'string') unreadable.push({ place, reason: event });
          else {
            records.set(place, record);
            events.push(event);
          }
        }
        yield { events, unreadable };
      }
    },
    done: (events) => reader.done(events.map(({ place }) => records.get(place) as TopicRecord)),
    close: () => reader.close(),
  };
}

/** The event in a dead letter of either shape, or one line about what is missing. */
export function fromDlqRecord(record: DlqRecord, place: string): StoredEvent | string {
  const form = record.headers[letterForm];
  if (form === 'value') return fromBareValue(record, place);
  if (form === 'place')
    return `it holds no event, because the event was too large: ${placeIn(record.headers)}`;
  const text = record.value.toString();
  const message = parseObject(text);
  if (message === undefined) return 'it is not a JSON object';
  const value = originalValue(message, text);
  if (value === undefined) return 'it has neither originalPayload nor originalEvent';
  const event = parseObject(value.toString()) ?? {};
  const headers = ownHeaders(record);
  const original = record.headers[originalContentType];
  if (original !== undefined) headers[contentType] = original;
  const eventId = textOf(message.eventId) ?? textOf(event.eventId) ?? headers.eventId;
  if (eventId === undefined) return 'it has no eventId';
  return {
    place,
    eventId,
    eventType: headers.eventType ?? textOf(event.eventType) ?? '',
    topic: textOf(message.originalTopic) ?? record.headers[originalTopic],
    key: record.key,
    headers,
    value,
    storedAt: storedAt(message) ?? record.timestamp,
    reason: textOf(message.exceptionType) ?? record.headers[exceptionType] ?? textOf(message.failureReason),
  };
}

function fromBareValue(record: DlqRecord, place: string): StoredEvent | string {
  const { value, key, timestamp, headers } = record;
  const eventId = textOf(headers[letterEventId]) ?? textOf(headers.eventId);
  if (eventId === undefined) return 'it has no eventId';
  const eventType = headers.eventType ?? textOf(parseObject(value.toString())?.eventType) ?? '';
  return {
    ...{ place, eventId, eventType, topic: headers[originalTopic], key, value },
    ...{ headers: ownHeaders(record), storedAt: timestamp, reason: headers[exceptionType] },
  };
}

function ownHeaders({ headers }: DlqRecord): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !added.includes(name)));
}

/** Other programs write to the topic as well: invalid numbers become `?`. */
function placeIn(headers: DlqRecord['headers']): string {
  const number = (name: string): string => (/^\d{1,19}$/.exec(headers[name] ?? '') ?? ['?'])[0];
  const topic = /^[\w.-]{1,249}$/.exec(headers[originalTopic] ?? '')?.[0] ?? '?';
  return headers[originalOffset] === undefined
    ? `it was meant for ${topic}`
    : `it is in ${topic}, partition ${number(originalPartition)}, offset ${number(originalOffset)}`;
}

export type DeadLetterHead = Pick<StoredEvent, 'eventId' | 'eventType' | 'topic' | 'storedAt' | 'reason'>;

/**
 * A dead letter without its event. svc's own letters have all of it in headers; otherwise the value is parsed. A string: not a dead
 * letter.
 */
export function headOfDlqRecord(record: DlqRecord): DeadLetterHead | string {
  const { eventId, eventType, [originalTopic]: topic, [exceptionType]: reason } = record.headers;
  if (eventId && eventType && topic && reason)
    return { eventId, eventType, topic, storedAt: record.timestamp, reason };
  return fromDlqRecord(record, '');
}

type Message = Readonly<Record<string, unknown>>;

function originalValue(message: Message, text: string): Buffer | undefined {
  const { originalPayload, originalPayloadEncoding, originalEvent } = message;
  if (typeof originalPayload === 'string') {
    return originalPayloadEncoding === 'base64'
      ? Buffer.from(originalPayload, 'base64')
      : Buffer.from(originalPayload);
  }
  if (typeof originalEvent !== 'object' || originalEvent === null) return undefined;
  // svc writes the event last, byte for byte. Quotes in earlier strings are escaped, so the first match is the field.
  const at = text.indexOf(rawEvent);
  const raw = at < 0 ? undefined : text.slice(at + rawEvent.length, -1);
  return Buffer.from(raw !== undefined && isJson(raw) ? raw : JSON.stringify(originalEvent));
}

function storedAt({ failedAt, failureTimestamp }: Message): number | undefined {
  // Other programs write these fields as well: an invalid time is ignored.
  const time = new Date((failedAt ?? failureTimestamp) as number | string).getTime();
  return Number.isNaN(time) ? undefined : time;
}

function isJson(text: string): boolean {
  return parseObject(text) !== undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Error names are plain words; other characters are replaced. */
function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 200);
}

import { createHash } from 'node:crypto';
import type { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { type DecryptionKeys, type DecryptOptions, decryptFields } from '../consumer/decrypt-fields.ts';
import { contextStorage, createScope, parseTraceparent } from '../context/context-store.ts';
import { runWithContext } from '../context/request.ts';
import { type CloudEvent, cloudEventIn, type EventMetadata, toEnvelope } from '../envelope/envelope.ts';
import { parseBounded } from '../ground/bounds.ts';
import { sleep } from '../ground/builtins.ts';
import { backoffMs } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { Severity } from '../ground/event-fields.ts';
import type { Logger } from '../observe/logger.ts';
import { activeTracer, isolate, otelApi } from '../observe/otel-api.ts';
import type { ConsumedEvents, ConsumedOutcome } from '../observe/outcomes.ts';
import { can } from '../outbox/api/executor.ts';
import { type DlqFormat, toDlqRecord, toSmallerDlqRecord } from '../publish/tiers/dlq-message.ts';
import { EventValue } from '../serialize/serializer.ts';
import { databaseFault, type InboxOnce, nameOf } from './inbox.ts';

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
  readonly metadata: EventMetadata;
  readonly payload: Payload;
}

export interface ReadingOptions {
  /** For events in Avro: the result of `createAvroReader` of `svc/avro`. */
  readonly avro?: { read(value: Uint8Array): Promise<unknown> } | undefined;
  /** For events with encrypted fields: the result of `createDecryptionKeys`. Without it they stay `ENC(…)`. */
  readonly keys?: DecryptionKeys | undefined;
  readonly decrypt?: DecryptOptions | undefined;
}

interface ReadEvent {
  /** As it stands in the topic, not decrypted. */
  readonly document: unknown;
  readonly event: ConsumedEvent;
  /** Unique among all events. */
  readonly inboxId: string;
}

/** Reads JSON, Avro and CloudEvents. Rejects with an `SvcError`; `isLater` tells whether a retry may succeed. */
async function readEvent(
  record: Pick<ConsumedRecord, 'headers'> & { readonly value: Buffer; readonly timestamp?: number },
  { avro, keys, decrypt }: ReadingOptions,
): Promise<ReadEvent> {
  const { value, headers, timestamp = Number.NaN } = record;
  const document = await parsed(value, headers['content-type'], avro);
  const envelope = toEnvelope(document, headers, timestamp);
  if (!isEnvelope(envelope))
    throw unreadable(
      'it is not an envelope of svc (eventId, eventType, metadata, payload): a newer version or another producer wrote it',
    );
  const event = keys === undefined ? envelope : await decryptFields(envelope, keys, decrypt);
  const { eventId } = event;
  const isOwn = envelope === document || headers.eventId === eventId;
  const foreign = isOwn ? undefined : cloudEventIn(document, headers);
  return { document, event, inboxId: foreign === undefined ? eventId : idOfOther(foreign) };
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
function isLater(error: unknown): boolean {
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

/** What a handler gets beside its event: the place of the record, and the attempt. */
export interface EventInfo {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Starts at 1. */
  readonly attempt: number;
  /** Aborted when the handler exceeds `handlerTimeoutMs`, or the consumer stops. The handler should then reject. */
  readonly signal: AbortSignal;
}

/** Writes through `tx`: its writes and the fact that the event is handled are committed together. */
export type EventHandler<Tx = unknown, Payload = unknown> = (
  event: ConsumedEvent<Payload>,
  tx: Tx,
  info: EventInfo,
) => unknown;

/** Handlers by event type, with the payload types of `Payloads`; `'*'` handles all other types. */
export type EventHandlers<Tx, Payloads> = {
  readonly [Type in keyof Payloads]?: EventHandler<Tx, Payloads[Type]>;
} & { readonly '*'?: EventHandler<Tx> };

const refused = Symbol.for('svc.refused-event');

/** Throw it from a handler for an event that can never be handled: no retries, and the event goes to the dead letters. */
export class RefusedEvent extends Error {
  override readonly name = 'RefusedEvent';
  readonly [refused] = true;

  /** The handler may have the class of the other half (ESM or CJS), or of another copy, of the package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && refused in value;
  }
}

interface HandlingOptions extends ReadingOptions {
  readonly consumer: string;
  readonly inbox: InboxOnce;
  readonly handlers: ReadonlyMap<string, EventHandler>;
  readonly upcasts: Upcasts | undefined;
  readonly otherTypes: 'dead-letter' | 'ignore';
  readonly maxAttempts: number;
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
  readonly handlerTimeoutMs: number;
  readonly sendDeadLetter: SendDeadLetter | undefined;
  readonly counts: ConsumedEvents;
  readonly logger: Logger;
  readonly onError: (error: unknown, record: ConsumedRecord) => void;
  /** Limits concurrent handlers. The result releases the slot. */
  readonly enter: () => Promise<() => void>;
}

interface Failure {
  /**
   * `refused`: a retry cannot help. `passing`: the database, a registry or a key service is unavailable, which is not the
   * event's fault. `failed`: the handler failed.
   */
  readonly kind: 'refused' | 'passing' | 'failed';
  readonly error: unknown;
  /** The reason in svc's log lines, if the handler is not the cause. */
  readonly as?: unknown;
}

interface Known {
  eventId?: string | undefined;
  eventType?: string | undefined;
  document?: unknown;
}

/** Passed along with a record while its partition is assigned to this consumer. */
interface PartitionWork {
  /** Aborted when the partition moves to another consumer, or this one stops. */
  readonly signal: AbortSignal;
  /** The partition waits for a retry, or for a slow handler. */
  waits(isWaiting: boolean): void;
}

/** Works on one record until it is done, or its partition has moved. */
export function createHandling(
  options: HandlingOptions,
): (record: ConsumedRecord, work: PartitionWork) => Promise<boolean> {
  const { handlers, counts, logger, maxAttempts, firstDelayMs, longestDelayMs } = options;
  const watch = watchRetention(options);

  async function outcomeOf(
    record: ConsumedRecord,
    work: PartitionWork,
    known: Known,
  ): Promise<ConsumedOutcome> {
    const { value } = record;
    // A tombstone of a compacted topic holds no event.
    if (value === null || value.length === 0) return 'ignored';
    for (let attempts = 1, tries = 1; ; tries++) {
      if (work.signal.aborted) return 'returned';
      const result = await tryOnce({ ...record, value }, attempts, work, known);
      if (typeof result === 'string') return result;
      const { kind, error, as = error } = result;
      options.onError(error, record);
      const isLast = kind === 'refused' || (kind === 'failed' && attempts >= maxAttempts);
      if (isLast && options.sendDeadLetter !== undefined)
        return bury({ ...record, value }, work, causeOf(result, attempts, known));
      if (kind === 'failed') attempts++;
      if (work.signal.aborted) return 'returned';
      const delayMs = isLast ? longestDelayMs : backoffMs(tries, firstDelayMs, longestDelayMs);
      const where = placeOf(record);
      const next = isLast
        ? `its partition waits, because there is no dead letter topic; next try in ${delayMs} ms`
        : `next try in ${delayMs} ms`;
      logger.warn(`an event was not handled: ${textOf(as)}; ${next}`, {
        ...where,
        ...idsOf(known),
        attempt: tries,
      });
      counts.of(known.eventType ?? '').retries++;
      await waitFor(delayMs, work);
    }
  }

  async function tryOnce(
    record: ConsumedRecord & { value: Buffer },
    attempt: number,
    work: PartitionWork,
    known: Known,
  ): Promise<ConsumedOutcome | Failure> {
    let read: ReadEvent;
    try {
      read = await readEvent(record, options);
      const { event } = read;
      watch(record, event);
      Object.assign(known, { eventId: event.eventId, eventType: event.eventType, document: read.document });
    } catch (error) {
      return { kind: isLater(error) ? 'passing' : 'refused', error };
    }
    const { event } = read;
    const handler = handlers.get(event.eventType) ?? handlers.get('*');
    if (handler === undefined) {
      if (options.otherTypes === 'ignore') return 'ignored';
      return { kind: 'refused', error: unknownType(event.eventType, handlers) };
    }
    let current: ConsumedEvent;
    try {
      current = upcastEvent(event, record.headers, options.upcasts);
    } catch (error) {
      return { kind: 'refused', error, as: upcastFailed(event, error) };
    }
    return handleOnce(record, { ...read, event: current }, handler, attempt, work);
  }

  async function handleOnce(
    record: ConsumedRecord,
    { event, inboxId }: ReadEvent,
    handler: EventHandler,
    attempt: number,
    work: PartitionWork,
  ): Promise<ConsumedOutcome | Failure> {
    const leave = await options.enter();
    const late = new AbortController();
    const { topic, partition, offset, key, headers } = record;
    const signal = AbortSignal.any([work.signal, late.signal]);
    const info = { topic, partition, offset, key, headers, attempt, signal };
    let hasBegun = false;
    const begun = performance.now();
    // Logged again after twice the time, and so on.
    const hangs = (afterMs: number): void => {
      const seconds = Math.round((performance.now() - begun) / 1_000);
      logger.error(
        `SVC_CONSUME_HANDLER_HANGS: the handler of ${event.eventType} has taken ${seconds} s; its partition waits, the others continue`,
        placeOf(record),
      );
      late.abort();
      work.waits(true);
      leave();
      timer = setTimeout(hangs, afterMs, afterMs * 2).unref();
    };
    const { handlerTimeoutMs } = options;
    let timer = setTimeout(hangs, handlerTimeoutMs, handlerTimeoutMs).unref();
    try {
      const { handled } = await withinEvent(record, event, options.consumer, () =>
        options.inbox.once({ ...event, eventId: inboxId }, (tx) => {
          hasBegun = true;
          return handler(event, tx, info);
        }),
      );
      return handled ? 'handled' : 'repeated';
    } catch (error) {
      if (error instanceof RefusedEvent) return { kind: 'refused', error };
      if (error instanceof SvcError && error.code === 'SVC_CONSUME_NOT_AN_EVENT')
        return { kind: 'refused', error };
      // Before the handler has begun, or after a lost connection or a serialization failure, it is not the event's fault.
      const isPassing = !hasBegun || databaseFault(error) === 'passing';
      return { kind: isPassing ? 'passing' : 'failed', error };
    } finally {
      clearTimeout(timer);
      counts.of(event.eventType).seconds += (performance.now() - begun) / 1_000;
      leave();
    }
  }

  /** Retries until the dead letter topic has the record: its partition must not continue before. */
  async function bury(
    record: ConsumedRecord & { value: Buffer },
    work: PartitionWork,
    cause: DeathCause,
  ): Promise<ConsumedOutcome> {
    for (let tries = 1; ; tries++) {
      try {
        const holds = await options.sendDeadLetter?.(record, cause);
        const without =
          holds === 'place'
            ? '; it is too large for that topic (max.message.bytes), so the letter holds only its position'
            : '';
        logger.error(`an event went to the dead letters: ${cause.message}${without}`, {
          ...placeOf(record),
          ...idsOf(cause),
        });
        return 'dead_letter';
      } catch (error) {
        options.onError(error, record);
        const delayMs = backoffMs(tries, firstDelayMs, longestDelayMs);
        logger.error(
          `the dead letter topic rejected an event (${nameOf(error)}), so its partition waits; next try in ${delayMs} ms`,
          placeOf(record),
        );
        await waitFor(delayMs, work);
        if (work.signal.aborted) return 'returned';
      }
    }
  }

  return async (record, work) => {
    const known: Known =
      record.headers.eventType === undefined ? {} : { eventType: record.headers.eventType };
    const row = counts.of(known.eventType ?? '');
    row.taken++;
    const outcome = await outcomeOf(record, work, known);
    row[outcome]++;
    return outcome !== 'returned';
  };
}

/**
 * Warns once per topic about events that are older than the inbox remembers. Clients do not show the retention of a topic to a
 * consumer, and events may also arrive late for other reasons.
 */
function watchRetention({ inbox: { retentionDays }, logger }: HandlingOptions) {
  const said = new Set<string>();
  return ({ topic, timestamp }: ConsumedRecord, { publishedAt }: ConsumedEvent): void => {
    if (retentionDays === undefined || said.has(topic)) return;
    const publishedMs = Date.parse(publishedAt);
    const ageMs = Date.now() - (publishedMs < timestamp ? publishedMs : timestamp);
    if (ageMs <= retentionDays * dayMs) return;
    said.add(topic);
    const days = Math.floor(ageMs / dayMs);
    logger.warn(
      `topic ${topic} has an event that is ${days} days old, but the inbox keeps ${retentionDays} days. An older event is handled a second time: give createInbox a longer retentionDays`,
    );
  };
}

const dayMs = 86_400_000;

async function waitFor(delayMs: number, { signal, waits }: PartitionWork): Promise<void> {
  waits(true);
  await sleep(delayMs, undefined, { signal }).catch(() => {});
  waits(false);
}

function causeOf({ error, as = error }: Failure, attempts: number, known: Known): DeathCause {
  const { eventId, eventType, document } = known;
  return { eventId, eventType, document, attempts, cause: nameOf(as), message: textOf(as) };
}

/** Only svc's own messages hold no value of an event. */
function textOf(error: unknown): string {
  if (error instanceof SvcError) return `${error.code}: ${error.message}`;
  if (error instanceof RefusedEvent) return 'its handler refused it';
  return `its handler, or the database, failed with ${nameOf(error)}`;
}

function placeOf({ topic, partition, offset }: ConsumedRecord): Record<string, string | number> {
  return { topic, partition, offset: String(offset) };
}

function idsOf({ eventId, eventType }: Known): Record<string, string> {
  return { ...(eventId !== undefined && { eventId }), ...(eventType !== undefined && { eventType }) };
}

function unknownType(eventType: string, handlers: ReadonlyMap<string, EventHandler>): SvcError {
  const known = [...handlers.keys()].slice(0, 20).join(', ');
  return new SvcError(
    'SVC_CONSUME_UNKNOWN_TYPE',
    `there is no handler for events of the type ${/^[\w.:-]{1,100}$/.test(eventType) ? eventType : '(no name)'}: add one, or '*', or set otherTypes: 'ignore' (handled here: ${known})`,
  );
}

export interface DeadLetterOptions {
  /** Not one of the consumed topics. `svc dlq recover --dlq-topic` sends its events to their topics again. */
  readonly topic: string;
  /** A connected producer of `kafkajs` or `@platformatic/kafka`. */
  readonly producer: object;
  /** The format of the dead letters: `operations` (default) or `recovery`. */
  readonly format?: DlqFormat;
}

/** Why an event will not be handled. Holds none of its content. */
interface DeathCause {
  readonly eventId: string | undefined;
  readonly eventType: string | undefined;
  /** The event as its topic has it, for readers of the dead letters of Avro events. */
  readonly document: unknown;
  readonly attempts: number;
  readonly cause: string;
  readonly message: string;
}

/**
 * The content of a dead letter. `all`: the event in the requested format. `value`, if that is too large for the topic: the original
 * event, with the rest in headers. `place`, if that is too large as well: topic, partition and offset only.
 */
type LetterHolds = 'all' | 'value' | 'place';

/** Rejects if no form of the letter was accepted. */
type SendDeadLetter = (record: ConsumedRecord & { value: Buffer }, cause: DeathCause) => Promise<LetterHolds>;

interface Letter {
  readonly key: string | null;
  readonly value: Buffer;
  readonly headers: Record<string, string>;
}

/** @throws SvcError `SVC_CONSUME_OPTIONS` */
export function deadLettersTo({ topic, producer, format = 'operations' }: DeadLetterOptions): SendDeadLetter {
  const send = senderOf(producer, topic);
  return async (record, { eventId, eventType, document, attempts, cause, message }) => {
    const { key, value, headers, timestamp } = record;
    const event = {
      eventId: eventId ?? headers.eventId ?? `${record.topic}-${record.partition}@${record.offset}`,
      eventType: eventType ?? headers.eventType ?? '',
      ...{ topic: record.topic, key: key ?? '', headers },
      value: new EventValue({ ...form, toJson: () => document }, '', []),
    };
    const failed = {
      ...{ event, topic: record.topic, attempts, failure: { kind: 'fatal' as const, cause, message } },
      record: { key, value, headers, timestamp },
    };
    const nowMs = Date.now();
    const sendForm = async (holds: LetterHolds): Promise<LetterHolds> => {
      const letter =
        holds === 'all'
          ? toDlqRecord(failed, format, nowMs)
          : toSmallerDlqRecord(failed, holds, nowMs, record);
      await isolate(() => send({ key: letter.key, value: letter.value, headers: { ...letter.headers } }));
      return holds;
    };
    for (const holds of ['all', 'value'] as const)
      try {
        return await sendForm(holds);
      } catch (error) {
        if (!isTooLarge(error)) throw error;
      }
    return sendForm('place');
  };
}

const tooLarge: readonly unknown[] = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'];

/** Clients wrap the broker's error in different ways. */
function isTooLarge(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > 5) return false;
  const { type, apiId, cause, errors } = error as Record<string, unknown>;
  return (
    tooLarge.includes(type) ||
    tooLarge.includes(apiId) ||
    [cause, ...(Array.isArray(errors) ? errors : [])].some((each) => isTooLarge(each, depth + 1))
  );
}

const form = { headers: {}, encoding: 'utf8' as const, publishedAt: () => '' };

function senderOf(producer: unknown, topic: string): (letter: Letter) => Promise<void> {
  if (can(producer, 'send', 'sendBatch', 'transaction'))
    return async (letter) => {
      await producer.send({ topic, acks: -1, messages: [letter] });
    };
  if (can(producer, 'send', 'initIdempotentProducer'))
    return async ({ key, value, headers }) => {
      const message = {
        ...{ topic, value, headers: new Map(bytesOf(headers)) },
        ...(key !== null && { key: Buffer.from(key) }),
      };
      await producer.send({ messages: [message], acks: -1 });
    };
  throw new SvcError(
    'SVC_CONSUME_OPTIONS',
    'deadLetters.producer must be a producer of kafkajs or @platformatic/kafka',
  );
}

function bytesOf(headers: Readonly<Record<string, string>>): [Buffer, Buffer][] {
  return Object.entries(headers).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]);
}

/**
 * Converts a payload to the next version. It gets each event of its type, and recognizes an older one by the payload or by a
 * header of its producer. It returns any other payload unchanged. Synchronous.
 */
export type Upcast = (
  // biome-ignore lint/suspicious/noExplicitAny: a payload of another version
  payload: any,
  of: { readonly event: ConsumedEvent; readonly headers: ConsumedRecord['headers'] },
) => unknown;

export type Upcasts = Readonly<Record<string, readonly Upcast[]>>;

/** The event with its payload in the version of the handlers: each function gets the result of the one before. */
function upcastEvent(
  event: ConsumedEvent,
  headers: ConsumedRecord['headers'],
  upcasts: Upcasts | undefined,
): ConsumedEvent {
  const { eventType } = event;
  if (upcasts === undefined || !Object.hasOwn(upcasts, eventType)) return event;
  let { payload } = event;
  for (const upcast of upcasts[eventType] ?? []) {
    payload = upcast(payload, { event, headers });
    if (payload === undefined || payload instanceof Promise)
      throw new TypeError('an upcast must return the payload, not a promise');
  }
  return { ...event, payload };
}

function upcastFailed({ eventType }: ConsumedEvent, error: unknown): SvcError {
  return new SvcError('SVC_CONSUME_UPCAST', `an upcast of ${eventType} failed with ${nameOf(error)}`);
}

// The API's constants, as numbers: reading them from the module would load it.
const consumerKind: SpanKind.CONSUMER = 4;
const errorStatus: SpanStatusCode.ERROR = 2;

/**
 * Runs work on an event in its trace, with its actor, correlation id and tags in svc's context, so that events published there
 * carry them. With a tracer it is a span of kind CONSUMER, whose parent is the producer's span.
 */
async function withinEvent<R>(
  record: ConsumedRecord,
  event: ConsumedEvent,
  consumer: string,
  work: () => Promise<R>,
): Promise<R> {
  const { actor, correlationId, tags } = event.metadata;
  const values = {
    ...{ userId: actor?.userId ?? null, sessionId: actor?.sessionId ?? null },
    ...{ correlationId: correlationId ?? null, tags: tags ?? null },
  };
  const { traceparent, tracestate } = traceHeaders(record);
  const scope = createScope(null, { traceparent, tracestate }, undefined);
  return contextStorage().run({ scope, added: null }, () =>
    runWithContext(values, () => spanned(record, event, consumer, work)),
  );
}

async function spanned<R>(
  record: ConsumedRecord,
  { eventId }: ConsumedEvent,
  consumer: string,
  work: () => Promise<R>,
): Promise<R> {
  const tracer = activeTracer();
  const api = otelApi();
  if (tracer === undefined || api === undefined) return work();
  const { topic, partition, offset } = record;
  const { traceparent, tracestate } = traceHeaders(record);
  const remote = parseTraceparent(traceparent ?? null);
  let parent = api.ROOT_CONTEXT;
  if (remote !== null)
    parent = api.trace.setSpanContext(parent, {
      ...{ traceId: remote.traceId, spanId: remote.spanId, traceFlags: remote.traceFlags, isRemote: true },
      ...(tracestate !== undefined && { traceState: api.createTraceState(tracestate) }),
    });
  const attributes = {
    ...{ 'messaging.system': 'kafka', 'messaging.destination.name': topic },
    ...{ 'messaging.operation.name': 'process', 'messaging.operation.type': 'process' },
    ...{ 'messaging.destination.partition.id': String(partition), 'messaging.kafka.offset': Number(offset) },
    ...{ 'messaging.message.id': eventId, 'messaging.client.id': consumer },
  };
  const span = tracer.startSpan(`process ${topic}`, { kind: consumerKind, attributes }, parent);
  try {
    return await api.context.with(api.trace.setSpan(parent, span), work);
  } catch (error) {
    span.setAttribute('error.type', nameOf(error));
    span.setStatus({ code: errorStatus });
    throw error;
  } finally {
    span.end();
  }
}

/** The headers of the record, or of a CloudEvent of another producer. */
function traceHeaders({ headers }: ConsumedRecord): TraceHeaders {
  const { traceparent, tracestate, ce_traceparent, ce_tracestate } = headers;
  return traceparent === undefined
    ? { traceparent: ce_traceparent, tracestate: ce_tracestate }
    : { traceparent, tracestate };
}

interface TraceHeaders {
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
}

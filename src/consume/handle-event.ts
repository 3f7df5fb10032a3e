import type { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { contextStorage, createScope } from '../context/context-store.ts';
import { runWithContext } from '../context/request.ts';
import { activeTracer, parseTraceparent } from '../context/trace.ts';
import { sleep } from '../ground/builtins.ts';
import { backoffMs } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { Logger } from '../observe/logger.ts';
import { isolate, otelApi } from '../observe/otel-api.ts';
import type { ConsumedEvents, ConsumedOutcome } from '../observe/outcomes.ts';
import { can } from '../outbox/api/executor.ts';
import { type DlqFormat, toDlqRecord, toSmallerDlqRecord } from '../publish/tiers/dlq-message.ts';
import { EventValue } from '../serialize/serializer.ts';
import {
  type ConsumedEvent,
  type ConsumedRecord,
  isLater,
  type ReadEvent,
  type ReadingOptions,
  readEvent,
} from './consumed-event.ts';
import { databaseFault, type InboxOnce, nameOf } from './inbox.ts';
import { type Commit, keyOf, type Partition, type RecordSink, type RecordSource } from './source.ts';

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

export interface HandlingOptions extends ReadingOptions {
  readonly consumer: string;
  readonly inbox: InboxOnce;
  readonly handlers: ReadonlyMap<string, EventHandler>;
  readonly upcasts: Upcasts | undefined;
  /** Called for each event that was read. */
  readonly onRead: (record: ConsumedRecord, event: ConsumedEvent) => void;
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

/** Why one attempt to handle an event failed. */
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

/** The parts of a record that could be read. */
interface Known {
  eventId?: string | undefined;
  eventType?: string | undefined;
  document?: unknown;
}

/** Works on one record until it is done, or its partition has moved. */
export function createHandling(
  options: HandlingOptions,
): (record: ConsumedRecord, work: PartitionWork) => Promise<boolean> {
  const { handlers, counts, logger, maxAttempts, firstDelayMs, longestDelayMs } = options;

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
      options.onRead(record, event);
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
export interface DeathCause {
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
export async function withinEvent<R>(
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

/** Records of one partition in memory. Above `mostQueued` its source is held; at `fewQueued` it is released. */
const mostQueued = 200;
const fewQueued = 50;

/** Passed along with a record while its partition is assigned to this consumer. */
interface PartitionWork {
  /** Aborted when the partition moves to another consumer, or this one stops. */
  readonly signal: AbortSignal;
  /** The partition waits for a retry, or for a slow handler. */
  waits(isWaiting: boolean): void;
}

interface PartitionQueuesOptions {
  readonly source: Pick<RecordSource, 'hold' | 'release'>;
  /** Resolves with whether the record is done; its offset is then committed. Never rejects. */
  readonly handle: (record: ConsumedRecord, work: PartitionWork) => Promise<boolean>;
  /** The number of waiting partitions. */
  readonly onWaiting: (count: number) => void;
}

interface PartitionQueues extends RecordSink {
  /** The offsets that were handled since the last call. */
  takeCommits(): readonly Commit[];
  /** Offsets that the broker has not stored: returned again with the next ones. */
  giveBack(commits: readonly Commit[]): void;
  /** Starts no further record; resolves when none is in progress. */
  end(): Promise<void>;
  /** Partitions with a record in progress. */
  busy(): readonly Partition[];
}

interface PartitionQueue extends Partition {
  readonly records: ConsumedRecord[];
  readonly over: AbortController;
  /** The offset after the last queued record. */
  next: bigint;
  isHeld: boolean;
  isWaiting: boolean;
  /** Resolves when its last record, and the queue before it, are done. */
  work: Promise<void>;
  isWorking: boolean;
  onChange: (() => void)[];
}

/** Handles the records of a partition in order, and partitions side by side. */
export function createPartitionQueues({
  source,
  handle,
  onWaiting,
}: PartitionQueuesOptions): PartitionQueues {
  const queues = new Map<string, PartitionQueue>();
  let ours: ReadonlySet<string> = new Set();
  const commits = new Map<string, Commit>();
  /** A partition can come back while one of its records is in progress. */
  const left = new Map<string, Promise<void>>();
  const working = new Set<PartitionQueue>();
  let waiting = 0;
  let isEnding = false;

  function changed(queue: PartitionQueue): void {
    const told = queue.onChange;
    queue.onChange = [];
    for (const tell of told) tell();
  }

  function setWaiting(queue: PartitionQueue, isWaiting: boolean): void {
    if (queue.isWaiting === isWaiting) return;
    queue.isWaiting = isWaiting;
    waiting += isWaiting ? 1 : -1;
    onWaiting(waiting);
    changed(queue);
  }

  async function run(queue: PartitionQueue): Promise<void> {
    queue.isWorking = true;
    working.add(queue);
    const { signal } = queue.over;
    for (let record = queue.records.shift(); record !== undefined; record = queue.records.shift()) {
      const isDone = await handle(record, { signal, waits: (isWaiting) => setWaiting(queue, isWaiting) });
      setWaiting(queue, false);
      if (!isDone) break;
      const { topic, partition, offset, leaderEpoch } = record;
      // For a partition that has moved nothing is committed: its new owner continues from its own offsets.
      if (queues.get(keyOf(queue)) === queue)
        commits.set(keyOf(queue), { topic, partition, offset: offset + 1n, leaderEpoch });
      if (queue.records.length < mostQueued) changed(queue);
      if (queue.isHeld && queue.records.length <= fewQueued && !signal.aborted) {
        queue.isHeld = false;
        source.release(queue);
      }
    }
    queue.isWorking = false;
    working.delete(queue);
  }

  function queueOf(partition: Partition): PartitionQueue {
    const key = keyOf(partition);
    const known = queues.get(key);
    if (known !== undefined) return known;
    const queue: PartitionQueue = {
      ...{ topic: partition.topic, partition: partition.partition, records: [], over: new AbortController() },
      ...{ next: -1n, isHeld: false, isWaiting: false, isWorking: false, onChange: [] },
      work: left.get(key) ?? Promise.resolve(),
    };
    queues.set(key, queue);
    return queue;
  }

  function leave(queue: PartitionQueue): void {
    const key = keyOf(queue);
    queues.delete(key);
    commits.delete(key);
    queue.records.length = 0;
    queue.over.abort();
    changed(queue);
    if (queue.isHeld) source.release(queue);
    left.set(key, queue.work);
    void queue.work.then(() => {
      if (left.get(key) === queue.work) left.delete(key);
    });
  }

  function stateOf(partition: Partition): ReturnType<RecordSink['stateOf']> {
    const queue = queues.get(keyOf(partition));
    if (queue === undefined || queue.records.length < mostQueued) return 'room';
    return queue.isWaiting ? 'waits' : 'full';
  }

  return {
    stateOf,
    whenNotFull: (partition) =>
      stateOf(partition) === 'full'
        ? new Promise((resolve) => queueOf(partition).onChange.push(resolve))
        : Promise.resolve(),
    push(record) {
      // A client may have read ahead in a partition that has moved, and whose new owner starts at an earlier record.
      if (isEnding || !ours.has(keyOf(record))) return;
      const queue = queueOf(record);
      // After a rebalance a client starts at the last committed offset.
      if (record.offset < queue.next) return;
      queue.next = record.offset + 1n;
      queue.records.push(record);
      if (!queue.isHeld && queue.records.length >= mostQueued) {
        queue.isHeld = true;
        source.hold(queue);
      }
      if (!queue.isWorking) {
        queue.isWorking = true;
        queue.work = queue.work.then(() => run(queue));
      }
    },
    assigned(partitions) {
      ours = new Set(partitions.map(keyOf));
      for (const queue of [...queues.values()])
        if (!ours.has(keyOf(queue))) leave(queue);
        // A restarted client does not know that the partition is held.
        else if (queue.isHeld) source.hold(queue);
    },
    takeCommits() {
      const taken = [...commits.values()];
      commits.clear();
      return taken;
    },
    giveBack(given) {
      for (const commit of given) {
        const key = keyOf(commit);
        if (queues.has(key) && !commits.has(key)) commits.set(key, commit);
      }
    },
    async end() {
      isEnding = true;
      for (const queue of queues.values()) {
        queue.records.length = 0;
        queue.over.abort();
        changed(queue);
      }
      await Promise.all([...[...queues.values()].map(({ work }) => work), ...left.values()]);
    },
    busy: () => [...working].map(({ topic, partition }) => ({ topic, partition })),
  };
}

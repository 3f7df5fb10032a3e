import { sleep } from '../ground/builtins.ts';
import { backoffMs } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { ConsumedEvents, ConsumedOutcome } from '../observe/consumed/consumed-counts.ts';
import type { Logger } from '../observe/logger.ts';
import {
  type ConsumedEvent,
  type ConsumedRecord,
  isLater,
  type ReadEvent,
  type ReadingOptions,
  readEvent,
} from './consumed-event.ts';
import { databaseFault, nameOf } from './database-fault.ts';
import type { DeathCause, SendDeadLetter } from './dead-letters.ts';
import type { InboxOnce } from './inbox.ts';
import type { PartitionWork } from './partition-queues.ts';
import { type Upcasts, upcastEvent, upcastFailed } from './upcast.ts';
import { withinEvent } from './within-event.ts';

/** What a handler knows beside its event. */
export interface EventInfo {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** From 1. */
  readonly attempt: number;
  /** Aborted when the handler takes longer than `handlerTimeoutMs`, or the consumer ends: give up, and reject. */
  readonly signal: AbortSignal;
}

/** Writes through `tx`; what it writes and that the event is handled are committed together. */
export type EventHandler<Tx = unknown, Payload = unknown> = (
  event: ConsumedEvent<Payload>,
  tx: Tx,
  info: EventInfo,
) => unknown;

/** Handlers by event type, of which `Payloads` says the payloads; `'*'` for all that have none. */
export type EventHandlers<Tx, Payloads> = {
  readonly [Type in keyof Payloads]?: EventHandler<Tx, Payloads[Type]>;
} & { readonly '*'?: EventHandler<Tx> };

const refused = Symbol.for('svc.refused-event');

/** A handler throws it for an event that it will never handle: no more tries, the event goes to the dead letters. */
export class RefusedEvent extends Error {
  override readonly name = 'RefusedEvent';
  readonly [refused] = true;

  /** The handler may have that of another half, or copy, of the package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && refused in value;
  }
}

export interface HandlingOptions extends ReadingOptions {
  readonly consumer: string;
  readonly inbox: InboxOnce;
  readonly handlers: ReadonlyMap<string, EventHandler>;
  readonly upcasts: Upcasts | undefined;
  /** Told of each event that was read. */
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
  /** So many handlers run at once; returns what makes room again. */
  readonly enter: () => Promise<() => void>;
}

/** Why an event was not handled, for once. */
interface Failure {
  /**
   * `refused`: no other try helps; `passing`: the database, a registry or a key service is away, which is no fault of the event;
   * `failed`: its handler.
   */
  readonly kind: 'refused' | 'passing' | 'failed';
  readonly error: unknown;
  /** What svc says of it, where its handler is not what failed. */
  readonly as?: unknown;
}

/** What is known of a record, as far as it was read. */
interface Known {
  eventId?: string | undefined;
  eventType?: string | undefined;
  document?: unknown;
}

/** Works on one record until it is done, or not ours any more. */
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
    // A tombstone of a compacted topic tells of no event.
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
        ? `its partition waits, as there is no dead letter topic; tried again in ${delayMs} ms`
        : `tried again in ${delayMs} ms`;
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
    // Said again after twice the time, and so on.
    const hangs = (afterMs: number): void => {
      const seconds = Math.round((performance.now() - begun) / 1_000);
      logger.error(
        `SVC_CONSUME_HANDLER_HANGS: the handler of ${event.eventType} has taken ${seconds} s; its partition waits for it, the others go on`,
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
      // Before its handler has begun, and where the connection was lost or the transaction has to be tried again, it is not the event's fault.
      const isPassing = !hasBegun || databaseFault(error) === 'passing';
      return { kind: isPassing ? 'passing' : 'failed', error };
    } finally {
      clearTimeout(timer);
      counts.of(event.eventType).seconds += (performance.now() - begun) / 1_000;
      leave();
    }
  }

  /** Until the dead letter topic has it: nothing else may go on in its partition. */
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
            ? '; it is too large for that topic (max.message.bytes), so the letter only says where it is'
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
          `the dead letter topic has not taken an event (${nameOf(error)}): its partition waits; tried again in ${delayMs} ms`,
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

/** Only svc's own texts hold no value of an event. */
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

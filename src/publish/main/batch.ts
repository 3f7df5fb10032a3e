import { orderOf } from '../../ground/event-fields.ts';
import type { SendFailure, SendFailureKind } from '../broker.ts';
import { type BatchLimits, type Batch as BatchOf, countForBatch, nextTry } from '../sender/sender.ts';
import { afterRetries } from './breaker.ts';
import type { QueuedEvent } from './queued-event.ts';

/** Events of one partition that are sent, retried and stored together. */
export interface Batch extends BatchOf<QueuedEvent> {
  /** It waits for its next try, or has been tried before the wait was over. */
  readonly pause?: Pause | undefined;
}

interface Pause {
  /** On the monotonic clock. */
  readonly untilMs: number;
  /** The try that is let in between as the cluster is back: once a wait, and it counts as none. */
  readonly isTried: boolean;
}

export interface BatchSettings extends BatchLimits {
  /** How long the first event of a batch waits at most for others where its partition is busy, or was just sent to. */
  readonly lingerMs: number;
  /** Callers wait for the outcome of their events. Default: false. */
  readonly isAwaited?: boolean;
}

/** With so many events or bytes in one send, more of them would hardly make each one cheaper: a batch waits no longer. */
export const worthwhileEvents = 100;
export const worthwhileBytes = 131_072;
/** The longest wait where an event was alone in the last batch. */
export const aloneLingerMs = 5;

/** Callers who wait are made to wait for company only where a crowd of them shares a partition, which serves them all sooner. */
export const crowdEvents = 10;
export const crowdLingerMs = 2;

/**
 * How long a first event waits for company. Where the last batch was a single event, as of somebody who publishes one after
 * the other and awaits each, waiting long would bring nobody.
 */
export function lingerFor(lastBatchEvents: number, { lingerMs, isAwaited }: BatchSettings): number {
  if (isAwaited) return lastBatchEvents >= crowdEvents ? Math.min(lingerMs, crowdLingerMs) : 0;
  return lastBatchEvents > 1 ? lingerMs : Math.min(lingerMs, aloneLingerMs);
}

/** The batch in a try while it waits for the next one. Without a wait, it is the next one. */
export function triedBetween(batch: Batch): Batch {
  return batch.pause === undefined ? nextTry(batch) : { ...batch, pause: { ...batch.pause, isTried: true } };
}

/** Once it was sent its events stay together, for a broker knows it again by them: their time is over with that of the first one. */
const isWhole = ({ sends }: Batch): boolean => sends > 0;

/** Without the events that have their outcome already; `undefined` where none is left. */
function unsettled(batch: Batch): Batch | undefined {
  if (!batch.events.some((event) => event.isSettled)) return batch;
  const events = batch.events.filter((event) => !event.isSettled);
  return events.length === 0 ? undefined : { ...batch, events };
}

/** Why the events of a batch go to the next tier: its own failure, and `reason` where it was not the last word. */
function finalFailure(batch: Batch, reason?: SendFailure): SendFailure {
  const own = batch.failure === undefined ? undefined : afterRetries(batch.failure, batch.sends - 1);
  const kind = (otherwise: SendFailureKind): SendFailureKind =>
    batch.maybeStored ? 'unknown_outcome' : otherwise;
  if (reason === undefined) {
    const last = own as SendFailure;
    return { ...last, kind: kind(last.kind) };
  }
  if (own === undefined) return { ...reason, kind: kind(reason.kind) };
  const message = `${reason.message}; last: ${own.message}`;
  return { ...reason, kind: kind(reason.kind), cause: own.cause, message };
}

/** Ends an event: it was not published. */
type Settle = (event: QueuedEvent, failure: SendFailure) => void;

/** Batches of one partition that failed, and the halves of such, in their order: they are sent before anything else. */
export class UnsentBatches {
  private batches: Batch[] = [];

  /** The first event without an outcome. */
  get firstOpen(): QueuedEvent | undefined {
    for (const { events } of this.batches) {
      const found = events.find(({ isSettled }) => !isSettled);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The first one waits for its retry, and has not been tried meanwhile. */
  get isPausing(): boolean {
    return this.batches[0]?.pause?.isTried === false;
  }

  putFirst(batches: readonly Batch[]): void {
    this.batches.unshift(...batches);
  }

  /** The first one, of what has no outcome. */
  take(): Batch | undefined {
    let found: Batch | undefined;
    while (found === undefined && this.batches.length > 0) found = unsettled(this.batches.shift() as Batch);
    return found;
  }

  /** All events, or those of batches of which it is certain that none is stored. What is left keeps its order. */
  takeEvents(alsoMaybeStored: boolean): QueuedEvent[] {
    const isTaken = (batch: Batch): boolean => alsoMaybeStored || !batch.maybeStored;
    const taken = this.batches.filter(isTaken);
    this.batches = this.batches.filter((batch) => !isTaken(batch));
    return taken.flatMap(({ events }) => events.filter(({ isSettled }) => !isSettled));
  }

  end(reason: SendFailure, settle: Settle, isWanted?: (event: QueuedEvent) => boolean): void {
    for (const batch of this.batches) endBatch(batch, reason, settle, isWanted);
    this.batches = this.batches.map(unsettled).filter((batch) => batch !== undefined);
  }
}

/** The events of a batch, or some of them, go to the next tier: all, where it was sent before and any of them is wanted. */
export function endBatch(
  batch: Batch,
  reason: SendFailure | undefined,
  settle: Settle,
  isWanted: (event: QueuedEvent) => boolean = () => true,
): void {
  const why = finalFailure(batch, reason);
  const isOne = isWhole(batch) && batch.events.some((event) => !event.isSettled && isWanted(event));
  for (const event of batch.events) if (isOne || isWanted(event)) settle(event, why);
}

/** Events without an outcome that are in no batch yet, in their order. */
export class WaitingEvents {
  private events: QueuedEvent[] = [];
  private heldCount = 0;
  bytes = 0;

  get count(): number {
    return this.events.length;
  }

  get hasHeld(): boolean {
    return this.heldCount > 0;
  }

  get first(): QueuedEvent | undefined {
    return this.events[0];
  }

  get firstHeld(): QueuedEvent | undefined {
    return this.hasHeld ? this.events.find(({ isHeld }) => isHeld) : undefined;
  }

  push(event: QueuedEvent): void {
    this.insert(event, this.events.length);
  }

  /** Where it was, behind all that are earlier: most of those that come back do so in their order. */
  putBack(event: QueuedEvent): void {
    const order = orderOf(event.event.eventId);
    const before = this.events.findLastIndex((one) => orderOf(one.event.eventId) <= order);
    this.insert(event, before + 1);
  }

  /** The first ones, as many as a send takes. */
  takeBatch(limits: BatchLimits): QueuedEvent[] {
    const count = this.count && countForBatch(this.events, ({ bytes }) => bytes, limits);
    return this.taken(this.events.splice(0, count));
  }

  take(isWanted: (event: QueuedEvent) => boolean): QueuedEvent[] {
    const wanted = this.events.filter(isWanted);
    this.events = this.events.filter((event) => !isWanted(event));
    return this.taken(wanted);
  }

  /** None of them is held any more. */
  freeAll(free: (event: QueuedEvent) => void): void {
    for (const event of this.events) if (event.isHeld) free(event);
    this.heldCount = 0;
  }

  private insert(event: QueuedEvent, at: number): void {
    this.events.splice(at, 0, event);
    this.bytes += event.bytes;
    if (event.isHeld) this.heldCount++;
  }

  private taken(events: QueuedEvent[]): QueuedEvent[] {
    for (const { bytes, isHeld } of events) {
      this.bytes -= bytes;
      if (isHeld) this.heldCount--;
    }
    return events;
  }
}

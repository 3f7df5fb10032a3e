import type { SendFailure, SendFailureKind } from '../broker.ts';
import type { QueuedEvent } from './queued-event.ts';
import { afterRetries } from './retry.ts';

/** Events of one partition that are sent, retried and stored together. */
export interface Batch {
  readonly events: readonly QueuedEvent[];
  /** Tries so far, the one under way among them. */
  readonly sends: number;
  /** Of the last try. */
  readonly failure: SendFailure | undefined;
  /** A try had an unknown outcome: the events may be stored already. */
  readonly maybeStored: boolean;
}

export interface BatchLimits {
  /** Events in one send. */
  readonly maxEvents: number;
  /** Bytes in one send; a single event may be larger, and is then sent alone. */
  readonly maxBytes: number;
}

export interface BatchSettings extends BatchLimits {
  /** How long the first event of a batch waits at most for others where its partition is busy, or was sent to within that time. */
  readonly lingerMs: number;
  /** Callers wait for the outcome of their events. Default: false. */
  readonly isAwaited?: boolean;
}

/** How many of the waiting events, which are not empty, go into the next batch. */
export function countForBatch(waiting: readonly QueuedEvent[], { maxEvents, maxBytes }: BatchLimits): number {
  const most = Math.min(waiting.length, maxEvents);
  let bytes = 0;
  for (let count = 0; count < most; count++) {
    bytes += (waiting[count] as QueuedEvent).bytes;
    if (bytes > maxBytes) return Math.max(count, 1);
  }
  return most;
}

export function newBatch(events: readonly QueuedEvent[]): Batch {
  return { events, sends: 0, failure: undefined, maybeStored: false };
}

/** Two halves, in their order, each with tries of its own. */
export function halvesOf(batch: Batch): [Batch, Batch] {
  const middle = Math.ceil(batch.events.length / 2);
  return [
    { ...newBatch(batch.events.slice(0, middle)), maybeStored: batch.maybeStored },
    { ...newBatch(batch.events.slice(middle)), maybeStored: batch.maybeStored },
  ];
}

/** The batch after a failed try. */
export function withFailure(batch: Batch, failure: SendFailure): Batch {
  return { ...batch, failure, maybeStored: batch.maybeStored || failure.kind === 'unknown_outcome' };
}

/** Without the events that have their outcome already; `undefined` where none is left. */
export function unsettled(batch: Batch): Batch | undefined {
  if (!batch.events.some((event) => event.isSettled)) return batch;
  const events = batch.events.filter((event) => !event.isSettled);
  return events.length === 0 ? undefined : { ...batch, events };
}

/** Why the events of a batch go to the next tier: its own failure, and `reason` where it was not the last word. */
export function finalFailure(batch: Batch, reason?: SendFailure): SendFailure {
  const own = batch.failure === undefined ? undefined : afterRetries(batch.failure, batch.sends - 1);
  const kind = (otherwise: SendFailureKind): SendFailureKind =>
    batch.maybeStored ? 'unknown_outcome' : otherwise;
  if (reason === undefined) {
    const last = own as SendFailure;
    return { ...last, kind: kind(last.kind) };
  }
  if (own === undefined) return { ...reason, kind: kind(reason.kind) };
  return { kind: kind(reason.kind), cause: own.cause, message: `${reason.message}; last: ${own.message}` };
}

import type { SendFailure, SendFailureKind } from '../broker.ts';
import { type BatchLimits, halvesOf } from '../cut-batches.ts';
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

export interface BatchSettings extends BatchLimits {
  /** How long the first event of a batch waits at most for others where its partition is busy, or was just sent to. */
  readonly lingerMs: number;
  /** Callers wait for the outcome of their events. Default: false. */
  readonly isAwaited?: boolean;
}

export function newBatch(events: readonly QueuedEvent[]): Batch {
  return { events, sends: 0, failure: undefined, maybeStored: false };
}

/** Two, in their order, each with tries of its own. */
export function splitBatch({ events, maybeStored }: Batch): Batch[] {
  return halvesOf(events).map((half) => ({ ...newBatch(half), maybeStored }));
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

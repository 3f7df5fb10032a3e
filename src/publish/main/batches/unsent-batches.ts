import type { SendFailure } from '../../broker.ts';
import { type Batch, finalFailure, isWhole, unsettled } from './batch.ts';
import type { QueuedEvent } from './queued-event.ts';

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

  putFirst(...batches: Batch[]): void {
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

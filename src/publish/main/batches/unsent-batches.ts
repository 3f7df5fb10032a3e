import type { SendFailure } from '../../broker.ts';
import { type Batch, finalFailure, unsettled } from './batch.ts';
import type { QueuedEvent } from './queued-event.ts';

/** Ends an event: it was not published. */
type Settle = (event: QueuedEvent, failure: SendFailure) => void;

/** Batches of one partition that failed, and the halves of such, in their order: they are sent before anything else. */
export interface UnsentBatches {
  readonly isEmpty: boolean;
  /** Whether the first one waits for its retry, and has not been tried meanwhile. */
  isFirstPausing(): boolean;
  /** The first event without an outcome. */
  firstOpen(): QueuedEvent | undefined;
  putFirst(...some: Batch[]): void;
  /** The first one that has such events. */
  take(): Batch | undefined;
  end(reason: SendFailure): void;
  expire(nowMs: number, reason: SendFailure): void;
}

export function createUnsentBatches(settle: Settle): UnsentBatches {
  const batches: Batch[] = [];
  return {
    get isEmpty() {
      return batches.length === 0;
    },
    isFirstPausing: () => batches[0]?.pause?.isTried === false,
    firstOpen: () => batches.flatMap(({ events }) => events).find(({ isSettled }) => !isSettled),
    putFirst: (...some) => void batches.unshift(...some),
    take() {
      while (batches.length > 0) {
        const batch = unsettled(batches.shift() as Batch);
        if (batch !== undefined) return batch;
      }
      return undefined;
    },
    end(reason) {
      for (const batch of batches.splice(0)) endBatch(batch, reason, settle);
    },
    expire(nowMs, reason) {
      for (const batch of batches) endBatch(batch, reason, settle, (event) => event.isDue(nowMs));
    },
  };
}

/** Its events, or some of them, go to the next tier. */
export function endBatch(
  batch: Batch,
  reason: SendFailure | undefined,
  settle: Settle,
  isWanted = (_: QueuedEvent) => true,
): void {
  const why = finalFailure(batch, reason);
  for (const event of batch.events) if (isWanted(event)) settle(event, why);
}

import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';
import type { KeyOrder } from '../order/key-order.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import type { QueuedEvent, RetryNotice, Signal } from './batches/queued-event.ts';
import { nameOf } from './failures.ts';
import type { Intake } from './intake.ts';
import { toRecord } from './record.ts';

export interface EventOutcomesOptions {
  readonly intake: Pick<Intake, 'release' | 'free'>;
  readonly next: NextTier;
  readonly order: Pick<KeyOrder, 'leaving' | 'decided'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onPublished: () => void;
  /** Puts an event that found the backup full back where it was. False: there is no room any more, and it is lost. */
  readonly putBack: (queued: QueuedEvent) => boolean;
  /** The backup has stored an event. */
  readonly onStored: () => void;
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
}

/** From the end of an event in the queue to its outcome: published, or where the next tiers have put it. */
export interface EventOutcomes {
  /** Resolves with where the event ended; never rejects. Its work runs in the AsyncLocalStorage context of its call. */
  outcomeOf(queued: QueuedEvent): Promise<Outcome>;
  /** The same of an event that was not taken in. */
  outcomeOfRefused(failed: FailedEvent): Promise<Outcome>;
  /** An event that was held may be sent. */
  free(queued: QueuedEvent): void;
  /** Ends an event in the queue: published, or failed and handed to the next tier. The first end counts. */
  settle(queued: QueuedEvent, failure: SendFailure | undefined): void;
  /** Resolves when every event so far has its outcome. */
  idle(): Promise<void>;
  /**
   * At the very end of the process, where no promise is heard any more: what the next tier was not given yet, for it hears
   * of an event a moment after its end. All that fail from now on are added to it.
   */
  takeOver(): readonly FailedEvent[];
}

export function createEventOutcomes(options: EventOutcomesOptions): EventOutcomes {
  const { intake, next, order, clock, logger, onPublished } = options;
  const onTheirWay = new Set<FailedEvent>();
  let takenOver: FailedEvent[] | undefined;
  /** In the queue, or with the next tier. */
  let pending = 0;
  const onIdle: (() => void)[] = [];

  function end(): void {
    if (--pending === 0) for (const resolve of onIdle.splice(0)) resolve();
  }

  /** One for all events: it is what most of them cost here. */
  function follow(signal: Signal): Outcome | Promise<Outcome> {
    if (signal === undefined) {
      onPublished();
      end();
      return 'published';
    }
    if ('failed' in signal) {
      const { failed, event } = signal;
      return onTheirWay.delete(failed) ? toNextTier(failed, event) : new Promise(() => {});
    }
    sayRetry(signal.notice);
    return signal.notice.next.then(follow);
  }

  async function toNextTier(failed: FailedEvent, queued?: QueuedEvent): Promise<Outcome> {
    let outcome: Outcome = 'lost';
    try {
      outcome = await next(failed);
    } catch (error) {
      logger.error('a tier failed against its promise', { error: nameOf(error) });
    }
    const isUndecided = outcome === 'lost' && failed.failure.endedBy === 'behind-unless-full';
    // It waits again before anything else may come.
    const isBack = isUndecided && queued !== undefined && options.putBack(queued);
    order.decided(failed);
    if (isBack) return queued.signal.then(follow);
    if (outcome === 'backup') options.onStored();
    if (isUndecided) options.onLost(failed.event, failed.topic, failed.failure);
    end();
    return outcome;
  }

  /** In the context of one event of the batch, whose id it names. */
  function sayRetry({ failure, retry: number, waitMs, batchEvents, event: queued }: RetryNotice): void {
    const { event, topic } = queued;
    const fields = { eventId: event.eventId, topic, cause: failure.cause, events: batchEvents };
    logger.debug(`send failed, retry ${number} in ${Math.round(waitMs)} ms: ${failure.message}`, fields);
  }

  function fail(queued: QueuedEvent, failure: SendFailure): void {
    queued.record ??= toRecord(queued.event, clock.now());
    const failed = queued.toFailed(failure);
    if (takenOver === undefined) {
      onTheirWay.add(failed);
      order.leaving(failed);
      queued.failed(failed);
    } else {
      queued.silenced();
      takenOver.push(failed);
    }
  }

  return {
    outcomeOf(queued) {
      pending++;
      return queued.signal.then(follow);
    },
    outcomeOfRefused(failed) {
      pending++;
      order.leaving(failed);
      return toNextTier(failed);
    },
    free: intake.free,
    settle(queued, failure) {
      if (queued.isSettled) return;
      if (failure === undefined) queued.published();
      else fail(queued, failure);
      intake.release(queued);
    },
    idle: () => (pending === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve))),
    takeOver() {
      takenOver = [...onTheirWay];
      onTheirWay.clear();
      return takenOver;
    },
  };
}

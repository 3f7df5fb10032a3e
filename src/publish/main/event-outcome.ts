import type { Logger } from '../../observe/logger.ts';
import type { Outcome } from '../publisher.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import type { QueuedEvent, RetryNotice } from './queued-event.ts';

export interface FollowOptions {
  readonly next: NextTier;
  readonly logger: Logger;
  readonly onPublished?: (() => void) | undefined;
  /** Each event has its outcome, once. */
  readonly onEnd: () => void;
}

/** What is done for one event, in the AsyncLocalStorage context of its call. */
export interface Follower {
  /** Resolves with where the event ended. */
  outcomeOf(queued: QueuedEvent): Promise<Outcome>;
  /** Ends an event that goes to the next tier. */
  failed(queued: QueuedEvent, failed: FailedEvent): void;
  /** Takes back what the next tier was not given yet: it hears of an event a moment after its end. */
  takeBack(): FailedEvent[];
  toNextTier(failed: FailedEvent): Promise<Outcome>;
}

export function createFollower({ next, logger, onPublished, onEnd }: FollowOptions): Follower {
  const onTheirWay = new Set<FailedEvent>();

  async function toNextTier(failed: FailedEvent): Promise<Outcome> {
    try {
      return await next(failed);
    } catch (error) {
      logger.error('a tier failed against its promise', { error: nameOf(error) });
      return 'lost';
    } finally {
      onEnd();
    }
  }

  async function outcomeOf(queued: QueuedEvent): Promise<Outcome> {
    let signal = await queued.signal;
    while (signal !== undefined) {
      if ('failed' in signal) {
        const { failed } = signal;
        return onTheirWay.delete(failed) ? toNextTier(failed) : new Promise(() => {});
      }
      sayRetry(queued, signal.notice);
      signal = await signal.notice.next;
    }
    onPublished?.();
    onEnd();
    return 'published';
  }

  /** In the context of one event of the batch, whose id it names. */
  function sayRetry(queued: QueuedEvent, { failure, retry: number, waitMs, batchEvents }: RetryNotice): void {
    const { event, topic } = queued;
    const fields = { eventId: event.eventId, topic, cause: failure.cause, events: batchEvents };
    logger.debug(`send failed, retry ${number} in ${Math.round(waitMs)} ms: ${failure.message}`, fields);
  }

  return {
    outcomeOf,
    failed(queued, failed) {
      onTheirWay.add(failed);
      queued.failed(failed);
    },
    takeBack() {
      const taken = [...onTheirWay];
      onTheirWay.clear();
      return taken;
    },
    toNextTier,
  };
}

export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

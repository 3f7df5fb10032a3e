import type { Clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';

/** An event that no tier has stored. It holds ids and reasons, never the payload. */
export interface LostEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly topic: string;
  /** Class name or code of the root cause. */
  readonly cause: string;
  /** One line for an operator. */
  readonly message: string;
}

export type LostEventListener = (event: LostEvent) => void;

const listeners = shared('event-lost-listeners', () => new Set<LostEventListener>());

/** Calls `listener` for each lost event, whichever copy of this package lost it. Returns a function that removes it. */
export function onEventLost(listener: LostEventListener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** For callers that wait for the outcome. */
export function lostError(): SvcError {
  return new SvcError('SVC_PUBLISH_LOST', 'the event could not be published, and no other tier stored it');
}

export type LossAlert = ReturnType<typeof createLossAlert>;

/** The alert of the last tier: an error line, each `onEventLost` listener, and health DOWN until an event is published. */
export function createLossAlert(logger: Logger, clock: Clock) {
  const say = throttledLog(logger, clock);
  let state: string | undefined;

  return {
    lost({ eventId, eventType }: SerializedEvent, topic: string, { cause, message }: SendFailure): void {
      const event: LostEvent = { eventId, eventType, topic, cause, message };
      state = `events are being lost: ${message}`;
      say(cause, `event lost: ${message}`, { eventId, eventType, topic, cause });
      for (const listener of listeners) {
        const sayFailed = (): void => logger.error('a listener of onEventLost threw', { eventId });
        try {
          // An async listener rejects instead. An unhandled rejection would end the process.
          const work: unknown = listener(event);
          if (work instanceof Promise) work.catch(sayFailed);
        } catch {
          sayFailed();
        }
      }
    },
    /** A worker thread ended with events in its memory. They are not known one by one, so listeners are not called. */
    threadEnded(eventType: string, count: number): void {
      const message = 'a worker thread ended with events in its memory';
      state = `events are being lost: ${message}`;
      say('thread', `events lost, unless they were just acknowledged: ${message}`, {
        eventType,
        events: count,
      });
    },
    /** An event was published again. */
    recovered(): void {
      state = undefined;
    },
    /** One line from a lost event until the next published one, for the health endpoint. */
    state: (): string | undefined => state,
  };
}

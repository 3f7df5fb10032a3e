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

/** Calls `listener` for each event that is lost, whichever copy of this package it was lost in. Returns the way to stop it. */
export function onEventLost(listener: LostEventListener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** What a caller gets who asked to be told. */
export function lostError(): SvcError {
  return new SvcError('SVC_PUBLISH_LOST', 'the event could not be published, and no other tier stored it');
}

export interface LossAlert {
  lost(event: SerializedEvent, topic: string, failure: SendFailure): void;
  /** A worker thread was ended with events in its memory. Which ones is not known, so no listener is told. */
  threadEnded(eventType: string, count: number): void;
  /** Something was published again. */
  recovered(): void;
  /** One line while the last event was lost; for the health endpoint. */
  state(): string | undefined;
}

/** The alarm of the last tier: an error line, every `onEventLost` listener, and a DOWN health until an event gets through. */
export function createLossAlert(logger: Logger, clock: Clock): LossAlert {
  const say = throttledLog(logger, clock);
  let state: string | undefined;

  return {
    lost({ eventId, eventType }, topic, { cause, message }) {
      const event: LostEvent = { eventId, eventType, topic, cause, message };
      state = `events are being lost: ${message}`;
      say(cause, `event lost: ${message}`, { eventId, eventType, topic, cause });
      for (const listener of listeners) {
        const sayFailed = (): void => logger.error('a listener of onEventLost threw', { eventId });
        try {
          // One that is asynchronous rejects instead, and a rejection that nobody handles ends the process.
          const work: unknown = listener(event);
          if (work instanceof Promise) work.catch(sayFailed);
        } catch {
          sayFailed();
        }
      }
    },
    threadEnded(eventType, count) {
      const message = 'a worker thread ended with events in its memory';
      state = `events are being lost: ${message}`;
      say('thread', `events lost, unless they were just acknowledged: ${message}`, {
        eventType,
        events: count,
      });
    },
    recovered() {
      state = undefined;
    },
    state: () => state,
  };
}

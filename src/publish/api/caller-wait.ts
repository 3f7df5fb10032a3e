import { AsyncResource } from 'node:async_hooks';
import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isoSeconds } from '../../ground/event-fields.ts';
import { shared } from '../../ground/lifecycle.ts';
import { logger, throttledLog } from '../../observe/logger.ts';
import { type EventTypeCounts, type Outcome, outcomes } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';

interface Waiting {
  readonly untilMs: number;
  readonly release: (outcome: Outcome | undefined) => void;
}

/** A timer that is later than this was delayed by a blocked event loop. */
const lateMs = 50;

/**
 * One timer serves all waiting callers: all wait equally long, so the first in is the first out. It keeps the process alive while
 * callers wait.
 */
export function createCallerWait(maxWaitMs: number) {
  const waiting = new Set<Waiting>();
  const context = new AsyncResource('svc.caller-wait');
  let timer: NodeJS.Timeout | undefined;
  let dueMs = 0;
  let isPutOff = false;

  function releaseDue(): void {
    timer = undefined;
    const nowMs = clock.monotonic();
    // The event loop was blocked past the time. The outcome may have arrived unread: allow one more turn.
    isPutOff = !isPutOff && nowMs - dueMs > lateMs;
    if (isPutOff) {
      arm(nowMs, nowMs);
      return;
    }
    for (const one of waiting) {
      if (one.untilMs > nowMs) {
        arm(one.untilMs, nowMs);
        return;
      }
      waiting.delete(one);
      one.release(undefined);
    }
  }

  function arm(untilMs: number, nowMs: number): void {
    dueMs = untilMs;
    timer = setTimeout(releaseDue, Math.ceil(untilMs - nowMs));
  }

  function enter(one: Waiting, nowMs: number): void {
    // Otherwise the timer would run in the context of the first call.
    if (timer === undefined) context.runInAsyncScope(arm, undefined, one.untilMs, nowMs);
    else if (waiting.size === 0) timer.ref();
    waiting.add(one);
  }

  function leave(one: Waiting): void {
    if (waiting.delete(one) && waiting.size === 0) timer?.unref();
  }

  function forOutcome(outcome: Promise<Outcome>): Promise<Outcome | undefined> {
    return new Promise((release) => {
      const nowMs = clock.monotonic();
      const one = { untilMs: nowMs + maxWaitMs, release };
      enter(one, nowMs);
      void outcome.then((known) => {
        leave(one);
        release(known);
      });
    });
  }

  return {
    /** Resolves with the outcome, or with `undefined` when the time is over. The event continues either way. */
    forOutcome,
    /**
     * The same for a caller that must know: rejects if the event is not stored, or the time is over.
     * @param waitMs the caller's own time limit
     */
    untilStored: (outcome: Promise<Outcome>, waitMs?: number): Promise<Outcome> =>
      (waitMs === undefined ? forOutcome(outcome) : outcomeWithin(waitMs, outcome)).then(throwUnlessStored),
  };
}

/** For a caller with its own time limit. */
function outcomeWithin(waitMs: number, outcome: Promise<Outcome>): Promise<Outcome | undefined> {
  const dueMs = clock.monotonic() + waitMs;
  return new Promise((release) => {
    // One more turn, as above.
    const over = (): void => {
      if (clock.monotonic() - dueMs > lateMs) timer = setTimeout(release, 0, undefined);
      else release(undefined);
    };
    let timer = setTimeout(over, Math.ceil(waitMs));
    void outcome.then((known) => {
      clearTimeout(timer);
      release(known);
    });
  });
}

/** `undefined`: no outcome yet. */
function throwUnlessStored(outcome: Outcome | undefined): Outcome {
  switch (outcome) {
    case undefined:
      throw stillInFlight();
    case 'lost':
      throw lostError();
    case 'refused':
      throw new SvcError('SVC_PROTECT_KEY_UNAVAILABLE', 'its key did not arrive');
    case 'published':
    case 'dlq':
    case 'backup':
    case 'outbox':
    case 'rolled_back':
      return outcome;
  }
}

function stillInFlight(): SvcError {
  return new SvcError(
    'SVC_PUBLISH_TIMEOUT',
    'the event has no outcome yet; it is still in flight and may arrive',
    { name: 'TimeoutException' },
  );
}

/** Events accepted between two flushes. */
export interface Generation {
  count: number;
}

/** Counts events in flight, so that a flush waits only for those that existed when it was called. */
export function createInFlight() {
  let current: Generation = { count: 0 };
  let count = 0;
  const older = new Map<Generation, (() => void)[]>();
  const waitingForIdle: (() => void)[] = [];

  function wake(waiting: (() => void)[]): void {
    for (const resolve of waiting.splice(0)) resolve();
  }

  return {
    begin(): Generation {
      count++;
      current.count++;
      return current;
    },
    end(generation: Generation): void {
      generation.count--;
      count--;
      if (generation.count === 0 && generation !== current) {
        const waiting = older.get(generation) ?? [];
        older.delete(generation);
        wake(waiting);
      }
      if (count === 0) wake(waitingForIdle);
    },
    /** Resolves when all events begun before the call have ended. */
    async soFar(): Promise<void> {
      if (current.count > 0) {
        older.set(current, []);
        current = { count: 0 };
      }
      await Promise.all(
        [...older.values()].map((waiting) => new Promise<void>((resolve) => waiting.push(resolve))),
      );
    },
    idle: (): Promise<void> =>
      count === 0 ? Promise.resolve() : new Promise((resolve) => waitingForIdle.push(resolve)),
  };
}

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
function lostError(): SvcError {
  return new SvcError('SVC_PUBLISH_LOST', 'the event could not be published, and no other tier stored it');
}

/** The alert of the last tier: an error line, each `onEventLost` listener, and health DOWN until an event is published. */
export function createLossAlert() {
  const say = throttledLog();
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

/** Only refusals for this long are more than one caller with a bad argument. */
const refusalsMs = 10_000;
/** An instance without requests makes no events: it becomes ready again this long after its last refusal. */
const restMs = 30_000;

const others = outcomes.filter((outcome) => outcome !== 'refused');

/**
 * Detects that all events are refused, which no tier sees. There is no timer: each health request compares the counts. The alarm needs
 * two looks with new refusals, `refusalsMs` apart. One event with another outcome ends it.
 */
export function createRefusalAlert(rows: () => Iterable<EventTypeCounts>) {
  let seen = { refused: 0, other: 0 };
  /** Refusals at the last other outcome. */
  let refusedBefore = 0;
  /** The first look that found a refusal since then. */
  let firstAtMs: number | undefined;
  /** The last look that found a new refusal. */
  let lastAtMs = Number.NEGATIVE_INFINITY;
  let isAlarm = false;
  let reason: string | undefined;

  function count(): typeof seen {
    const sums = { refused: 0, other: 0 };
    for (const row of rows()) {
      sums.refused += row.refused;
      for (const outcome of others) sums.other += row[outcome];
    }
    return sums;
  }

  function look(): void {
    const now = count();
    const isMore = now.refused > seen.refused;
    if (now.other !== seen.other) {
      refusedBefore = now.refused;
      firstAtMs = undefined;
      isAlarm = false;
      reason = undefined;
    } else if (isMore) {
      lastAtMs = clock.monotonic();
      firstAtMs ??= lastAtMs;
      isAlarm ||= lastAtMs - firstAtMs >= refusalsMs;
    }
    seen = now;
  }

  return {
    /** Whether all events are refused and the last refusal was within `restMs`; for the readiness endpoint. */
    isGoingOn(): boolean {
      look();
      return isAlarm && clock.monotonic() - lastAtMs < restMs;
    },
    /** `message`: one line, shown until another event succeeds. Refusals of worker threads are only counted. */
    refused(message: string): void {
      reason = message;
    },
    /** Compares the counts. Returns one line if all events are refused; for the health endpoint. */
    state(): string | undefined {
      look();
      if (!isAlarm || firstAtMs === undefined) return undefined;
      const since = isoSeconds(clock.now() - (clock.monotonic() - firstAtMs));
      const why = reason === undefined ? 'see the log of its worker threads' : `the last one, ${reason}`;
      return `all events are refused since ${since} (${seen.refused - refusedBefore}): ${why}`;
    },
  };
}

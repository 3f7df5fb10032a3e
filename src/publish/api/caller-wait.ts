import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import { lostError } from '../tiers/loss-alert.ts';

/** Holds those who wait for an event, and lets them go when they have waited long enough. */
export interface CallerWait {
  /** Resolves with the outcome; `undefined`: the time is over, and the event goes on without its caller. */
  forOutcome(outcome: Promise<Outcome>): Promise<Outcome | undefined>;
}

interface Waiting {
  readonly untilMs: number;
  readonly release: (outcome: Outcome | undefined) => void;
}

/** Timers are later than this only where something blocked the event loop. */
const lateMs = 50;

/**
 * One timer for all of them: as each waits equally long, who came first is the first to go. It keeps the process alive while
 * somebody waits: what waits for an answer must not find the process ended.
 */
export function createCallerWait(maxWaitMs: number, clock: Clock): CallerWait {
  const waiting = new Set<Waiting>();
  const context = new AsyncResource('svc.caller-wait');
  let timer: NodeJS.Timeout | undefined;
  let dueMs = 0;
  let isPutOff = false;

  function releaseDue(): void {
    timer = undefined;
    const nowMs = clock.monotonic();
    // The process was busy beyond the time: an answer that came meanwhile has not been read yet, and is read in the next turn.
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
    // Not in the context of the one call that comes first.
    if (timer === undefined) context.runInAsyncScope(arm, undefined, one.untilMs, nowMs);
    else if (waiting.size === 0) timer.ref();
    waiting.add(one);
  }

  function leave(one: Waiting): void {
    if (waiting.delete(one) && waiting.size === 0) timer?.unref();
  }

  return {
    forOutcome: (outcome) =>
      new Promise((release) => {
        const nowMs = clock.monotonic();
        const one = { untilMs: nowMs + maxWaitMs, release };
        enter(one, nowMs);
        void outcome.then((known) => {
          leave(one);
          release(known);
        });
      }),
  };
}

/** For one with a time of its own, whose timer ends with it. */
export function outcomeWithin(
  waitMs: number,
  outcome: Promise<Outcome>,
  clock: Clock,
): Promise<Outcome | undefined> {
  const dueMs = clock.monotonic() + waitMs;
  return new Promise((release) => {
    // One turn more, as above.
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

/** For those who are told how it went. `undefined`: it has no outcome yet. */
export function throwUnlessStored(outcome: Outcome | undefined): Outcome {
  if (outcome === undefined) throw stillUnderWay();
  if (outcome === 'lost') throw lostError();
  if (outcome === 'refused') throw new SvcError('SVC_PROTECT_KEY_UNAVAILABLE', 'its key did not come');
  return outcome;
}

function stillUnderWay(): SvcError {
  return new SvcError(
    'SVC_PUBLISH_TIMEOUT',
    'the event has no outcome yet: it is on its way still, and may arrive',
    { name: 'TimeoutException' },
  );
}

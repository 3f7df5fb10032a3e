import { backoffMs, type Clock } from '../../ground/clock.ts';
import { type CircuitState, circuitStates } from '../../ground/management.ts';
import type { Logger } from '../../observe/logger.ts';
import type { SendFailure } from '../broker.ts';
import { faultOf, isAnswer, passingOf } from '../fault.ts';

export { type CircuitState, circuitStates };

type Admission = 'send' | 'probe' | 'refused';

/** Tracks whether the cluster is away. Synchronous, no timers. */
export interface Breaker {
  readonly state: CircuitState;
  /** Failures of the cluster since it last answered. */
  readonly consecutiveFailures: number;
  /** Milliseconds until it may be HALF-OPEN; 0: not OPEN. */
  openForMs(): number;
  /** Called once for each new event. `probe`: this event tests the cluster; the caller must report its result, or `probeGone`. */
  admit(): Admission;
  /** A send reached the cluster. */
  answered(): void;
  /** A send failed. `givenUp`: its batch is not retried. */
  failed(failure: SendFailure, givenUp: boolean): void;
  /** The cluster did not answer a request. `message`: one line about that. */
  silent(message: string): void;
  /** The probe ended without a send. */
  probeGone(): void;
  /** An operator declares the cluster reachable: CLOSED, all counts 0. */
  reset(): void;
}

export interface BreakerSettings {
  /** Failed sends in a row before the breaker opens. */
  readonly threshold: number;
  /** Time from one probe to the next. */
  readonly probeIntervalMs: number;
  /** The same after a temporary error in answer to the last probe. Default: `probeIntervalMs`. */
  readonly passingIntervalMs?: number;
  /** From 0 to below 1: varies these times by up to 20 %, so that many processes do not probe at once. Default: no jitter. */
  readonly random?: () => number;
}

interface CircuitOptions extends BreakerSettings {
  readonly clock: Clock;
  /** Whether fatal failures of the cluster count as well. */
  readonly countsFatal: boolean;
  /** `why`: one line; for CLOSED the end of the sentence. */
  readonly onChange: (to: CircuitState, from: CircuitState, why: string) => void;
}

interface BreakerOptions extends BreakerSettings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when it opens, not when a probe failed. */
  readonly onOpen: () => void;
}

export const defaultBreaker: BreakerSettings = {
  threshold: 5,
  probeIntervalMs: 1_000,
  passingIntervalMs: 250,
};

/** The failure of each event that finds the breaker open. */
export const breakerOpen: SendFailure = {
  kind: 'retriable',
  cause: 'CircuitBreakerOpen',
  message: 'Circuit breaker is OPEN',
};

/**
 * Opens when `threshold` sends in a row have failed because of the cluster, and one of the batches has used up its retries. So it
 * stays closed in a short outage that retries outlast, and a single partition can open it. Opens at once when the cluster is known
 * not to answer.
 */
export function createCircuit(options: CircuitOptions): Breaker {
  const { threshold, probeIntervalMs, clock, countsFatal, onChange } = options;
  const { passingIntervalMs = probeIntervalMs, random = () => 0.5 } = options;
  let state: CircuitState = 'CLOSED';
  let failures = 0;
  let givenUpAny = false;
  let nextProbeAtMs = 0;

  function change(to: CircuitState, why = ''): void {
    const from = state;
    state = to;
    if (to !== from) onChange(to, from, why);
  }

  function close(why?: string): void {
    failures = 0;
    givenUpAny = false;
    change('CLOSED', why);
  }

  function open(why: string, intervalMs = probeIntervalMs): void {
    nextProbeAtMs = clock.monotonic() + withJitter(intervalMs, random);
    change('OPEN', why);
  }

  return {
    get state() {
      return state;
    },

    get consecutiveFailures() {
      return failures;
    },
    openForMs: () => (state === 'OPEN' ? Math.max(0, nextProbeAtMs - clock.monotonic()) : 0),

    admit() {
      if (state === 'CLOSED') return 'send';
      if (state === 'HALF-OPEN' || clock.monotonic() < nextProbeAtMs) return 'refused';
      change('HALF-OPEN');
      return 'probe';
    },

    answered: () => close(),
    reset: () => close(' by a reset'),

    failed(failure, givenUp) {
      const { kind, cause, message } = failure;
      const fault = faultOf(failure);
      // Every probe may be for a topic that is refused.
      if (isAnswer(failure) && (fault === 'record' || state === 'HALF-OPEN')) return close();
      if ((kind === 'fatal' && !countsFatal) || fault !== 'cluster') return;
      failures++;
      givenUpAny ||= givenUp;
      if (state === 'OPEN' || (state === 'CLOSED' && !(givenUpAny && failures >= threshold))) return;
      // The cluster is starting: it elects leaders, and replicas catch up in a moment.
      open(message, state === 'HALF-OPEN' && passingOf(cause) ? passingIntervalMs : probeIntervalMs);
    },

    silent(message) {
      if (state === 'CLOSED') open(message);
    },

    probeGone() {
      if (state === 'HALF-OPEN') open('the probe was not sent');
    },
  };
}

/** The publisher's circuit, with log messages. */
export function createBreaker({ logger, onOpen, ...options }: BreakerOptions): Breaker {
  return createCircuit({
    ...options,
    countsFatal: false,
    onChange(to, from, why) {
      if (to === 'CLOSED')
        logger.info(`Circuit breaker is CLOSED${why}: events are sent to the cluster again`);
      else if (to === 'HALF-OPEN') logger.debug('Circuit breaker is HALF-OPEN: one event tests the cluster');
      else if (from === 'HALF-OPEN')
        logger.debug(`Circuit breaker is OPEN: the cluster is still unreachable (${why})`);
      else {
        logger.warn(
          `Circuit breaker is OPEN: new events go to the next tier until the cluster answers (${why})`,
        );
        onOpen();
      }
    },
  });
}

interface RetrySettings {
  readonly enabled: boolean;
  /** Tries after the first one. */
  readonly maxAttempts: number;
  readonly initialIntervalMs: number;
  readonly multiplier: number;
  readonly maxIntervalMs: number;
  /** Varies each wait by up to 20 %, so that many processes do not return at once. */
  readonly jitter: boolean;
}

export interface RetryPolicy {
  /** Milliseconds until the batch is sent again; `undefined`: no retry. */
  waitMs(retries: number, failure: SendFailure): number | undefined;
}

const jitterShare = 0.2;

/** Varies by up to 20 %. `random`: from 0 to below 1. */
export function withJitter(waitMs: number, random: () => number): number {
  return waitMs * (1 - jitterShare + 2 * jitterShare * random());
}

/** Waits 1 s, 2 s, 4 s by default. Unknown outcomes are retried as well: a duplicate is better than a loss. */
export function createRetryPolicy(settings: RetrySettings, random: () => number = Math.random): RetryPolicy {
  const { enabled, maxAttempts, initialIntervalMs, multiplier, maxIntervalMs, jitter } = settings;
  return {
    waitMs(retries, { kind }) {
      if (!enabled || retries >= maxAttempts || kind === 'fatal' || kind === 'too_large') return undefined;
      const wait = backoffMs(retries + 1, initialIntervalMs, maxIntervalMs, multiplier);
      return jitter ? withJitter(wait, random) : wait;
    },
  };
}

/** The failure for the next tier after failed retries. */
export function afterRetries(failure: SendFailure, retries: number): SendFailure {
  if (retries === 0) return failure;
  return { ...failure, message: `Failed to send message after ${retries} retries: ${failure.message}` };
}

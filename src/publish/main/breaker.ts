import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { SendFailure } from '../broker.ts';

/** As reports show it; `svc.circuit.state` is its position in this list. */
export const circuitStates = ['CLOSED', 'OPEN', 'HALF-OPEN'] as const;
export type CircuitState = (typeof circuitStates)[number];

/** What an event learns when it asks for its way. */
export type Admission = 'send' | 'probe' | 'refused';

/** Knows whether the cluster is away. Synchronous and without timers. */
export interface Breaker {
  readonly state: CircuitState;
  /** Asked once for each new event. `probe`: this one tests the cluster; say how it went, or that it never left. */
  admit(): Admission;
  /** A send reached the cluster. */
  answered(): void;
  /** A send failed. `givenUp`: its batch is not tried again. */
  failed(failure: SendFailure, givenUp: boolean): void;
  /** The cluster was asked, and does not answer; one line that says so. */
  silent(message: string): void;
  /** The probe ended without a send. */
  probeGone(): void;
  /** An operator says that the cluster is there: it is CLOSED, and nothing is counted any more. */
  reset(): void;
}

export interface BreakerSettings {
  /** Sends that fail one after another before the breaker opens. */
  readonly threshold: number;
  /** Time from one probe to the next. */
  readonly probeIntervalMs: number;
}

export interface BreakerOptions extends BreakerSettings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when it opens, not when a probe failed. */
  readonly onOpen: () => void;
}

export const defaultBreaker: BreakerSettings = { threshold: 5, probeIntervalMs: 1_000 };

/** What every event is told that finds it open. */
export const breakerOpen: SendFailure = {
  kind: 'retriable',
  cause: 'CircuitBreakerOpen',
  message: 'Circuit breaker is OPEN',
};

/** Refusals of one topic by the cluster, which is there then. */
const answers = new Set(['UNKNOWN_TOPIC_OR_PARTITION', 'TOPIC_AUTHORIZATION_FAILED']);
/** Refusals of one topic, too, but the client gives them without asking the cluster: they say nothing about it. */
const known = new Set(['UNKNOWN_PARTITION', 'INVALID_TOPIC_EXCEPTION']);

/**
 * Opens when `threshold` sends in a row have failed because of the cluster and one batch among them has used up its
 * retries: a short outage, which the retries outlast, does not open it, and one partition alone is enough to. Opens at once
 * when the cluster is known not to answer.
 */
export function createBreaker(options: BreakerOptions): Breaker {
  const { threshold, probeIntervalMs, clock, logger, onOpen } = options;
  let state: CircuitState = 'CLOSED';
  let failures = 0;
  let givenUpAny = false;
  let probedAtMs = 0;

  function close(why = ''): void {
    failures = 0;
    givenUpAny = false;
    if (state === 'CLOSED') return;
    state = 'CLOSED';
    logger.info(`Circuit breaker is CLOSED${why}: events are sent to the cluster again`);
  }

  function open(message: string): void {
    state = 'OPEN';
    probedAtMs = clock.monotonic();
    logger.warn(
      `Circuit breaker is OPEN: new events go to the next tier until the cluster answers (${message})`,
    );
    onOpen();
  }

  return {
    get state() {
      return state;
    },

    admit() {
      if (state === 'CLOSED') return 'send';
      if (state === 'HALF-OPEN' || clock.monotonic() - probedAtMs < probeIntervalMs) return 'refused';
      state = 'HALF-OPEN';
      logger.debug('Circuit breaker is HALF-OPEN: one event tests the cluster');
      return 'probe';
    },

    answered: () => close(),
    reset: () => close(' by a reset'),

    failed({ kind, cause, message }, givenUp) {
      if (kind === 'too_large') return close();
      // A topic that is refused may be the one of each probe.
      if (state === 'HALF-OPEN' && answers.has(cause)) return close();
      if (kind === 'fatal' || answers.has(cause) || known.has(cause)) return;
      failures++;
      givenUpAny ||= givenUp;
      if (state === 'OPEN' || (state === 'CLOSED' && !(givenUpAny && failures >= threshold))) return;
      if (state === 'CLOSED') return open(message);
      state = 'OPEN';
      probedAtMs = clock.monotonic();
      logger.debug('Circuit breaker is OPEN: the cluster is still away', { cause });
    },

    silent(message) {
      if (state === 'CLOSED') open(message);
    },

    probeGone() {
      if (state !== 'HALF-OPEN') return;
      state = 'OPEN';
      probedAtMs = clock.monotonic();
    },
  };
}

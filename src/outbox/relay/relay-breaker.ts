import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { SendFailure } from '../../publish/broker.ts';
import { faultOf, isAnswer } from '../../publish/fault.ts';
import { breakerOpen, type CircuitState, createBreaker, defaultBreaker } from '../../publish/main/breaker.ts';

/** From opening to the test of the cluster, and from one test to the next. */
export const openMs = 60_000;

/**
 * The breaker of the publisher, with the numbers of the outbox: OPEN after 5 consecutive failures of the cluster, HALF-OPEN
 * 60 seconds later, and one send decides. Nobody loses anything by it: rows wait in their table.
 */
export interface RelayBreaker {
  readonly state: CircuitState;
  /** Failures of the cluster since it last answered. */
  readonly consecutiveFailures: number;
  /** Milliseconds until it may be HALF-OPEN; 0 where it is not OPEN. */
  openForMs(): number;
  /** To be asked where `openForMs` is over: true, and it is HALF-OPEN. */
  halfOpen(): boolean;
  answered(): void;
  failed(failure: SendFailure): void;
  /** An operator says that the cluster is there: it is CLOSED, and nothing is counted any more. */
  reset(): void;
}

export interface RelayBreakerOptions {
  /** `false`: it is always CLOSED. */
  readonly enabled: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** It is OPEN now: nothing more is to be sent. */
  readonly onOpen: () => void;
}

const nothing = (): void => {};
const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

export function createRelayBreaker({ enabled, clock, logger, onOpen }: RelayBreakerOptions): RelayBreaker {
  // Its own lines speak of tiers, which rows have not.
  const breaker = createBreaker({
    threshold: enabled ? defaultBreaker.threshold : Number.POSITIVE_INFINITY,
    probeIntervalMs: openMs,
    clock,
    logger: silent,
    onOpen: nothing,
  });
  let consecutiveFailures = 0;
  let openedAtMs = 0;
  let state: CircuitState = 'CLOSED';

  function changed(why: string): void {
    if (breaker.state === state) return;
    state = breaker.state;
    if (state === 'CLOSED') logger.info(`outbox: Circuit breaker is CLOSED${why}: rows are sent again`);
    if (state === 'HALF-OPEN')
      logger.info('outbox: Circuit breaker is HALF-OPEN: one batch tests the cluster');
    if (state !== 'OPEN') return;
    openedAtMs = clock.monotonic();
    logger.info(`outbox: ${breakerOpen.message}: rows wait in their table for ${openMs / 1_000} s (${why})`);
    onOpen();
  }

  function close(why: string): void {
    consecutiveFailures = 0;
    breaker.answered();
    changed(why);
  }

  const answered = (): void => close('');

  return {
    get state() {
      return breaker.state;
    },
    get consecutiveFailures() {
      return consecutiveFailures;
    },
    openForMs: () => (state === 'OPEN' ? Math.max(0, openedAtMs + openMs - clock.monotonic()) : 0),
    halfOpen() {
      const isProbe = breaker.admit() === 'probe';
      changed('');
      return isProbe;
    },
    answered,
    reset: () => close(' by a reset'),
    failed(failure) {
      if (faultOf(failure) === 'cluster') {
        consecutiveFailures++;
        // What the breaker knows as fatal are faults of one event; here they are told apart already.
        breaker.failed({ ...failure, kind: 'retriable' }, true);
        changed(failure.message);
      } else if (state === 'HALF-OPEN' && isAnswer(failure)) answered();
    },
  };
}

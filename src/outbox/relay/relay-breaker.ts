import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { type Breaker, breakerOpen, createCircuit, defaultBreaker } from '../../publish/main/breaker.ts';

/** From opening to the test of the cluster, and from one test to the next. */
export const openMs = 60_000;

export interface RelayBreakerOptions {
  /** `false`: it is always CLOSED. */
  readonly enabled: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** It is OPEN now: nothing more is to be sent. */
  readonly onOpen: () => void;
}

/**
 * The breaker of the publisher, with the numbers of the outbox: OPEN after 5 consecutive failures of the cluster, HALF-OPEN
 * 60 seconds later, and one send decides. Nobody loses anything by it: rows wait in their table.
 */
export function createRelayBreaker({ enabled, clock, logger, onOpen }: RelayBreakerOptions): Breaker {
  return createCircuit({
    threshold: enabled ? defaultBreaker.threshold : Number.POSITIVE_INFINITY,
    probeIntervalMs: openMs,
    clock,
    // Faults of one row are told apart before.
    countsFatal: true,
    onChange(to, _, why) {
      if (to === 'CLOSED') logger.info(`outbox: Circuit breaker is CLOSED${why}: rows are sent again`);
      else if (to === 'HALF-OPEN')
        logger.info('outbox: Circuit breaker is HALF-OPEN: one batch tests the cluster');
      else {
        const wait = `rows wait in their table for ${openMs / 1_000} s`;
        logger.info(`outbox: ${breakerOpen.message}: ${wait} (${why})`);
        onOpen();
      }
    },
  });
}

import { systemClock } from '../../ground/clock.ts';
import type { OutboxState } from '../../observe/metrics.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import { type Breaker, circuitStates } from '../../publish/main/breaker.ts';

export interface StateParts {
  /** `undefined`: no relay runs here. */
  readonly relay: () => RelayState | undefined;
  readonly oldestPendingMs: () => number | null;
  readonly failed: () => number | null;
  readonly unconfirmed: () => number;
  readonly unjoined: () => number;
}

/** What the metrics read of an outbox. */
export function outboxState({
  relay,
  oldestPendingMs,
  failed,
  unconfirmed,
  unjoined,
}: StateParts): OutboxState {
  return {
    pending: () => relay()?.pending ?? null,
    oldestPendingMs,
    failed,
    lastRelayedMs() {
      const agoMs = relay()?.timeSinceLastSuccessMs ?? null;
      return agoMs === null ? null : systemClock.now() - agoMs;
    },
    unconfirmed,
    unjoined,
    circuit() {
      const state = relay();
      return state === undefined ? null : circuitStates.indexOf(state.circuitBreakerState);
    },
  };
}

/** The breaker of a relay, as an operator sees it; `undefined`: no relay runs at the moment. */
export function breakerOf(
  relay: (Pick<Relay, 'resetBreaker'> & { state(): RelayState | undefined }) | undefined,
): Pick<Breaker, 'state' | 'reset'> | undefined {
  const isRunning = relay?.state() !== undefined;
  if (relay === undefined || !isRunning) return undefined;
  return {
    get state() {
      return relay.state()?.circuitBreakerState ?? 'CLOSED';
    },
    reset: relay.resetBreaker,
  };
}

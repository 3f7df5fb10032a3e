import type { OutboxState } from '../../observe/metrics.ts';
import type { RelayState } from '../../outbox/relay/relay.ts';
import { circuitStates } from '../../publish/main/breaker.ts';

export interface StateParts {
  /** `undefined`: no relay runs here. */
  readonly relay: () => RelayState | undefined;
  readonly processed: () => RelayState['processed'];
  readonly oldestPendingMs: () => number | null;
  readonly unconfirmed: () => number;
}

/** What the metrics read of an outbox. */
export function outboxState({ relay, processed, oldestPendingMs, unconfirmed }: StateParts): OutboxState {
  return {
    pending: () => relay()?.pending ?? null,
    oldestPendingMs,
    processed,
    unconfirmed,
    circuit() {
      const state = relay();
      return state === undefined ? null : circuitStates.indexOf(state.circuitBreakerState);
    },
  };
}

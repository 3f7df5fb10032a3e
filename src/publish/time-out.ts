import type { SendFailure } from './broker.ts';

/** The event was not acknowledged in its time. `inFlight`: it may yet be. */
export function timedOut(deliveryTimeoutMs: number, inFlight: boolean): SendFailure {
  return {
    kind: inFlight ? 'unknown_outcome' : 'retriable',
    cause: 'TimeoutException',
    message: `not acknowledged within ${deliveryTimeoutMs} ms (svc.broker.delivery-timeout-ms, less what the dead letter topic and the backup need)`,
  };
}

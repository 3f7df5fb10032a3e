// api/: what application code calls, and how long it waits.

import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { Producer, Published, PublishOptions } from '../publisher.ts';

export interface RunningService {
  readonly producer: Producer;
  /** `svc.broker.client`. */
  readonly brokerClient: string;
  /** Whether each event that was handed over until now has its outcome, after `deadlineMs` at the latest. */
  flush(deadlineMs: number): Promise<boolean>;
  /** Resolves when the keys of a key service were fetched anew, or could not be. */
  invalidateEncryptionKeys(): Promise<void>;
}

/** The one service of this process, whichever copy of the package started it. */
export const runningService: { current: RunningService | undefined } = shared('service', () => ({
  current: undefined,
}));

/**
 * Publishes one event from application code: `await publish({ orderId: 7 }, { eventType: 'ORDER_CREATED' })`.
 *
 * Resolves when the broker has acknowledged it, in both settings of `svc.broker.async-mode`.
 *
 * @throws SvcError `SVC_PUBLISH_NOT_RUNNING` where svc was not started, `SVC_PUBLISH_LOST` when no tier has stored the event,
 * `SVC_PROTECT_…` when the payload cannot be published, `SVC_PUBLISH_OPTIONS` for an option that is wrong or unknown (nothing
 * is sent), `SVC_PUBLISH_TIMEOUT` when there is no outcome after `timeoutMs`, by default `svc.broker.delivery-timeout-ms`:
 * the event is on its way still, and may arrive.
 */
export async function publish(payload: unknown, options?: PublishOptions): Promise<Published> {
  const service = runningService.current;
  if (service === undefined) {
    throw new SvcError(
      'SVC_PUBLISH_NOT_RUNNING',
      'svc is not running: start the application with node --import svc/register',
    );
  }
  return service.producer.publish(payload, options);
}

/** The longest time that a timer can wait. */
const maxDeadlineMs = 2_147_483_647;

/**
 * Waits for the events that were handed over until now, in any mode: for functions that are frozen after their answer, and
 * for scripts. What waits only for company is sent at once.
 *
 * @returns whether each of them has its outcome; `false`: some are still on their way after `deadlineMs`. Without a running
 * svc there is nothing to wait for.
 * @throws SvcError `SVC_PUBLISH_OPTIONS` where `deadlineMs` is no time to wait.
 */
export async function flush(deadlineMs: number): Promise<boolean> {
  if (typeof deadlineMs !== 'number' || !(deadlineMs >= 0 && deadlineMs <= maxDeadlineMs)) {
    throw new SvcError(
      'SVC_PUBLISH_OPTIONS',
      `flush(): deadlineMs must be a number of milliseconds from 0 to ${maxDeadlineMs}`,
    );
  }
  return runningService.current?.flush(deadlineMs) ?? true;
}

/**
 * Forgets the keys of a key service at once, in this thread, and fetches them anew: for a key that must not be used any more.
 * Ordinary rotation needs nothing, as each key is replaced when its time is over.
 *
 * Resolves when the keys are there again, or could not be fetched: it never rejects, health and the log say what failed, and
 * svc goes on asking. Until then events with encrypted fields are refused (`SVC_PROTECT_KEY_UNAVAILABLE`). Keys of the
 * configuration are not touched.
 */
export async function invalidateEncryptionKeys(): Promise<void> {
  await runningService.current?.invalidateEncryptionKeys();
}

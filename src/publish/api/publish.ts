// api/: what application code calls, and how long it waits.

import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { Producer, Published, PublishOptions } from '../publisher.ts';

export interface RunningService {
  readonly producer: Producer;
  readonly brokerClient: string;
  /** Resolves after at most `deadlineMs`; true: each event accepted before the call has its outcome. */
  flush(deadlineMs: number): Promise<boolean>;
  /** Resolves when the keys of a key service were fetched again, or the fetch failed. */
  invalidateEncryptionKeys(): Promise<void>;
}

/** Shared by all copies of this package in the process. */
export const runningService: { current: RunningService | undefined } = shared('service', () => ({
  current: undefined,
}));

/**
 * Publishes one event from application code: `await publish({ orderId: 7 }, { eventType: 'ORDER_CREATED' })`.
 *
 * Resolves when the broker has acknowledged the event, or a later tier has stored it. `svc.broker.async-mode` does not change this.
 *
 * @throws SvcError
 * - `SVC_PUBLISH_NOT_RUNNING`: svc was not started.
 * - `SVC_PUBLISH_LOST`: no tier has stored the event.
 * - `SVC_PROTECT_…`: the payload cannot be published.
 * - `SVC_PUBLISH_OPTIONS`: an option is wrong or unknown. Nothing is sent.
 * - `SVC_PUBLISH_TIMEOUT`: no outcome after `timeoutMs`, by default `svc.broker.delivery-timeout-ms`. The event may still arrive.
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

/** The maximum of `setTimeout`. */
const maxDeadlineMs = 2_147_483_647;

/**
 * Waits for all events accepted before the call, in either mode: for scripts, and for functions that are frozen after their
 * response. Batches that wait for more events are sent at once.
 *
 * @returns `true` when each event has its outcome; `false` when some are still in flight after `deadlineMs` milliseconds. Resolves
 * with `true` when svc is not running.
 * @throws SvcError `SVC_PUBLISH_OPTIONS` when `deadlineMs` is not a number from 0 to 2,147,483,647.
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
 * Drops the cached keys of a key service in this thread and fetches them again: for a key that must not be used any longer.
 * Ordinary rotation does not need this, because cached keys expire.
 *
 * Resolves when the keys are fetched, or the fetch failed; never rejects. After a failure svc retries, and reports it in health and
 * the log. Until it succeeds, events with encrypted fields are refused (`SVC_PROTECT_KEY_UNAVAILABLE`). Keys in the configuration
 * are not affected.
 */
export async function invalidateEncryptionKeys(): Promise<void> {
  await runningService.current?.invalidateEncryptionKeys();
}

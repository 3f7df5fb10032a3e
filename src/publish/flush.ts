import { SvcError } from '../errors.ts';
import { runningService } from './running-service.ts';

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

import type { Clock } from '../../ground/clock.ts';
import { maxRecentDlqEvents, type RecentDlqEvent } from '../../observe/metrics.ts';
import type { FailedEvent } from '../tier.ts';

/** The last events that went to the dead letter topic: types and reasons, never a payload. */
export interface RecentDlqEvents {
  add(failed: Pick<FailedEvent, 'event' | 'failure'>): void;
  /** The newest first. */
  list(): readonly RecentDlqEvent[];
}

export function createRecentDlqEvents(clock: Clock): RecentDlqEvents {
  let events: readonly RecentDlqEvent[] = [];
  return {
    add({ event: { eventType }, failure: { cause, message } }) {
      const one = { eventType, failureReason: `${cause}: ${message}`, timestampMs: clock.now() };
      events = [one, ...events].slice(0, maxRecentDlqEvents);
    },
    list: () => events,
  };
}

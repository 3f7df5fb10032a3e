import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { maxRecentDlqEvents, type RecentDlqEvent } from '../../observe/metrics.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import { faultOf } from '../fault.ts';
import type { FailedEvent, Tier } from '../tier.ts';

const places: Readonly<Record<Tier['name'], string>> = { dlq: 'dead letter topic', backup: 'backup' };

/** What is told of events that did not get to their topic: never a payload. */
export interface KeptEvents {
  /** Says where it is: in a few lines, however many events there are. */
  kept(tier: Tier['name'], failed: FailedEvent): void;
  /** The last ones that went to the dead letter topic, the newest first. */
  recentDlq(): readonly RecentDlqEvent[];
}

export function createKeptEvents(logger: Logger, clock: Clock): KeptEvents {
  const warn = createQuietLog(logger, clock, { level: 'warn' });
  const sayError = createQuietLog(logger, clock);
  let recent: readonly RecentDlqEvent[] = [];
  return {
    kept(tier, { event: { eventId, eventType }, topic, failure }) {
      const { cause, message } = failure;
      // Nothing of this machine gets through until somebody sets it.
      const say = faultOf(failure) === 'clock' ? sayError : warn;
      const fields = { eventId, eventType, topic, cause };
      say(`${tier} ${cause}`, `event kept in the ${places[tier]}: ${message}`, fields);
      if (tier !== 'dlq') return;
      const one = { eventType, failureReason: `${cause}: ${message}`, timestampMs: clock.now() };
      recent = [one, ...recent].slice(0, maxRecentDlqEvents);
    },
    recentDlq: () => recent,
  };
}

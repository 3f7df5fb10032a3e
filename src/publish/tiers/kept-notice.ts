import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import { faultOf } from '../fault.ts';
import type { FailedEvent, Tier } from '../tier.ts';

const places: Readonly<Record<Tier['name'], string>> = { dlq: 'dead letter topic', backup: 'backup' };

/** Says that events did not get to their topic, and where they are: in a few lines, however many events there are. */
export function createKeptNotice(
  logger: Logger,
  clock: Clock,
): (name: Tier['name'], failed: FailedEvent) => void {
  const warn = createQuietLog(logger, clock, { level: 'warn' });
  const sayError = createQuietLog(logger, clock);
  return (name, { event: { eventId, eventType }, topic, failure }) => {
    const { cause, message } = failure;
    // Nothing of this machine gets through until somebody sets it.
    const say = faultOf(failure) === 'clock' ? sayError : warn;
    const fields = { eventId, eventType, topic, cause };
    say(`${name} ${cause}`, `event kept in the ${places[name]}: ${message}`, fields);
  };
}

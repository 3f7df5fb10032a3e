import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { FailedEvent, Tier } from '../tier.ts';

/** At most one line in this time for one place and cause. */
const quietMs = 10_000;
/** Causes are named by brokers: their number is not ours to trust. */
const maxCauses = 100;

const places: Readonly<Record<Tier['name'], string>> = { dlq: 'dead letter topic', backup: 'backup' };

/** Says that events did not get to their topic, and where they are: in a few lines, however many events there are. */
export function createKeptNotice(
  logger: Logger,
  clock: Clock,
): (name: Tier['name'], failed: FailedEvent) => void {
  const lines = new Map<string, { atMs: number; unsaid: number }>();
  return (name, { event, topic, failure: { cause, message } }) => {
    const id = `${name} ${cause}`;
    const line = lines.get(id);
    if (line !== undefined && clock.monotonic() - line.atMs < quietMs) {
      line.unsaid++;
      return;
    }
    const more = line !== undefined && line.unsaid > 0 ? { andBefore: line.unsaid } : undefined;
    const { eventId, eventType } = event;
    logger.warn(`event kept in the ${places[name]}: ${message}`, {
      eventId,
      eventType,
      topic,
      cause,
      ...more,
    });
    if (lines.size >= maxCauses) lines.clear();
    lines.set(id, { atMs: clock.monotonic(), unsaid: 0 });
  };
}

import type { Logger } from '../observe/logger.ts';
import type { ConsumedEvent, ConsumedRecord } from './consumed-event.ts';
import type { InboxOnce } from './inbox.ts';

const dayMs = 86_400_000;

/**
 * Says, once for each topic, that events come which are older than what the inbox remembers: no client lets a consumer ask how long
 * a topic keeps them, and events come late by other ways as well.
 */
export function watchRetention(
  { retentionDays }: Pick<InboxOnce, 'retentionDays'>,
  logger: Logger,
  now: () => number = Date.now,
): (record: Pick<ConsumedRecord, 'topic' | 'timestamp'>, event: Pick<ConsumedEvent, 'publishedAt'>) => void {
  const said = new Set<string>();
  return ({ topic, timestamp }, { publishedAt }) => {
    if (retentionDays === undefined || said.has(topic)) return;
    const publishedMs = Date.parse(publishedAt);
    const atMs = publishedMs < timestamp ? publishedMs : timestamp;
    if (now() - atMs <= retentionDays * dayMs) return;
    said.add(topic);
    const days = Math.floor((now() - atMs) / dayMs);
    logger.warn(
      `topic ${topic} gives an event that is ${days} days old, and the inbox forgets after ${retentionDays}: an event that it has forgotten is handled a second time; give createInbox a longer retentionDays`,
    );
  };
}

import type { RecoverySource, StoredEvent, Unreadable } from '../recovery-source.ts';
import { fromDlqRecord } from '../tiers/dlq-message.ts';
import type { TopicReader, TopicRecord } from '../topic-reader.ts';

/** The events behind the dead letters of a topic, in either shape. */
export function createDlqSource(topic: string, reader: TopicReader): RecoverySource {
  /** Of the last batch: what `done` is about. */
  let records = new Map<string, TopicRecord>();

  return {
    name: `dead letter topic ${topic}`,
    open: (forRecovery) => reader.open(forRecovery),
    count: () => reader.count(),
    async *read(size) {
      for await (const batch of reader.read(size)) {
        records = new Map();
        const events: StoredEvent[] = [];
        const unreadable: Unreadable[] = [];
        for (const record of batch) {
          const place = `${topic}-${record.partition}@${record.offset}`;
          const event = fromDlqRecord(record, place);
          if (typeof event === 'string') unreadable.push({ place, reason: event });
          else {
            records.set(place, record);
            events.push(event);
          }
        }
        yield { events, unreadable };
      }
    },
    done: (events) => reader.done(events.map(({ place }) => records.get(place) as TopicRecord)),
    close: () => reader.close(),
  };
}

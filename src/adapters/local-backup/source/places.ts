import type { BackupEvent } from '../../../publish/backup-strategy.ts';
import type { StoredEvent } from '../../../publish/recovery-source.ts';

/** Segment and number of a line, from 1, behind the whole; nothing of an event file. */
export function lineOf({ place }: Pick<StoredEvent, 'place'>): (string | undefined)[] {
  return /^(segment-.*):(\d+)$/.exec(place) ?? [];
}

export function toBackupEvent({ topic = '', reason = '', storedAt, ...event }: StoredEvent): BackupEvent {
  return { ...event, topic, reason, backedUpAt: storedAt };
}

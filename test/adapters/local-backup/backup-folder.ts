import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { localBackup } from '../../../src/adapters/local-backup/local-backup.ts';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import type { StoredEvent } from '../../../src/publish/recovery-source.ts';
import type { BackupEvent } from '../../../src/publish/tier.ts';
import { temporaryFolder } from '../../support/folders.ts';

type LocalBackupOptions = Parameters<typeof localBackup.open>[0];
export type LocalBackup = ReturnType<typeof localBackup.open>;

/** A folder that is not there yet. */
export function freshPath(): string {
  return join(temporaryFolder('backup'), 'dlq-backup');
}

export function backupIn(directory: string, options: Partial<LocalBackupOptions> = {}): LocalBackup {
  return localBackup.open({
    directory,
    format: options.isJournal === true ? 'journal' : 'event',
    maxFiles: 10_000,
    maxBytes: 1024 ** 3,
    ...options,
  });
}

export function backupEvent(eventId: string, options: Partial<BackupEvent> = {}): BackupEvent {
  return {
    eventId,
    eventType: 'ORDER_CREATED',
    topic: 'orders',
    key: `key-${eventId}`,
    headers: {
      eventId,
      eventType: 'ORDER_CREATED',
      'content-type': 'application/json',
      traceparent: '00-a-b-01',
      // Of the application, as `headers` of a target adds it.
      tenant: 'Zoë "& Söhne" ✓',
    },
    value: Buffer.from(
      JSON.stringify({
        eventId,
        eventType: 'ORDER_CREATED',
        occurredAt: '2026-03-04T10:00:00.120Z',
        payload: { n: 'é ✓' },
      }),
    ),
    reason: 'ECONNREFUSED',
    backedUpAt: 1_780_000_000_000,
    ...options,
  };
}

/** Names of the event files and segments. */
export function namesIn(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.includes('.json') || name.includes('.ndjson'))
    .sort();
}

export function contentOf(directory: string, name: string): string {
  return readFileSync(join(directory, name), 'utf8');
}

/** All events of the folder, as a listing sees them. */
export async function eventsIn(directory: string): Promise<StoredEvent[]> {
  const source = createLocalSource({ directory, now: Date.now });
  await source.open(false);
  const events: StoredEvent[] = [];
  for await (const batch of source.read(100)) events.push(...batch.events);
  await source.close();
  return events;
}

/** What a restore sends. */
export function routeOf({ topic, key, headers, value }: StoredEvent | BackupEvent): object {
  return { topic, key, headers, value: value.toString('hex') };
}

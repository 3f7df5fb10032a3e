// s3-backup/: a backup in S3, and the way back from there.

import { randomUUID } from 'node:crypto';
import { systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { type BackupEvent, backupName, type EventBackupStrategy } from '../../publish/backup-strategy.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import { encodeRecord, encodeRoute } from '../../publish/stored-record.ts';
import { maxObjectBytes } from './bounded-body.ts';
import { openS3Store, type S3Settings, type S3Store } from './s3-client.ts';

/** Name of the metadata that holds topic, key and headers, in Base64: metadata is ASCII. */
export const routeMetadata = 'svc-route';
/** S3 takes 2 KB of metadata in all. An event with more to say is stored as a record. */
const maxRouteLength = 1_800;

/** As many as the SDK has sockets for: a request that waits for one would use up its time there. */
const maxRequests = 50;
/** By then nobody waits for the answer any more, see `EventBackupStrategy`. */
const longestWaitMs = 30_000;

/**
 * Events as objects, `<prefix>/yyyy/MM/dd/<eventId>.json` by the UTC day of the backup. An object that is there already
 * is the same event: it is left alone. The AWS SDK is loaded at the first event.
 */
export function createS3Backup(settings: S3Settings): EventBackupStrategy {
  const requests = createSendSlots(maxRequests);
  let opening: Promise<S3Store> | undefined;

  function open(): Promise<S3Store> {
    opening ??= openS3Store(settings).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  return {
    name: `S3 bucket ${settings.bucket}`,
    async store(event) {
      const store = await open();
      const route = encodeRoute(event).toString('base64');
      const fits = route.length <= maxRouteLength;
      const body = fits ? event.value : encodeRecord(event);
      if (body.length > maxObjectBytes) throw tooLarge(settings.bucket, body.length);
      const sinceMs = systemClock.monotonic();
      await new Promise<void>((resolve) => requests.take(resolve));
      try {
        if (systemClock.monotonic() - sinceMs > longestWaitMs) throw tooSlow(settings.bucket);
        await store.put(keyOf(settings.prefix, event), body, fits ? { [routeMetadata]: route } : {});
      } finally {
        requests.give();
      }
    },
    async close() {
      (await opening)?.close();
    },
  };
}

/**
 * Stores a probe that no recovery reads, and deletes it. Rejects with one line where the bucket does not take it; resolves with its
 * key where it stays there, because deleting it is not allowed.
 */
export async function probeS3(settings: S3Settings): Promise<string | undefined> {
  const store = await openS3Store(settings);
  const key = `${folderOf(settings.prefix)}svc-check/${randomUUID()}`;
  try {
    await store.put(key, Buffer.from(key), {});
    return await store.delete(key).then(
      () => undefined,
      () => key,
    );
  } finally {
    store.close();
  }
}

/** It could not be read again. */
function tooLarge(bucket: string, bytes: number): SvcError {
  const message = `an event of ${bytes} bytes is more than svc stores in S3 bucket "${bucket}" in one piece (${maxObjectBytes} bytes)`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}

function tooSlow(bucket: string): SvcError {
  const message = `S3 bucket "${bucket}" is too slow for the events that go there`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

function keyOf(prefix: string, { eventId, backedUpAt }: BackupEvent): string {
  const day = new Date(backedUpAt).toISOString().slice(0, 10).replaceAll('-', '/');
  return `${folderOf(prefix)}${day}/${backupName(eventId)}.json`;
}

/** Without a slash at its beginning and without `..`, which tools that copy a bucket to files would follow. */
export function folderOf(prefix: string): string {
  const parts = prefix.split('/').filter((part) => part !== '' && part !== '.' && part !== '..');
  return parts.length === 0 ? '' : `${parts.join('/')}/`;
}

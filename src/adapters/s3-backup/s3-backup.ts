// s3-backup/: a backup in S3, and the way back from there.

import { randomUUID } from 'node:crypto';
import { systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { type BackupEvent, backupName, type EventBackupStrategy } from '../../publish/backup-strategy.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { decodeEvent, decodeRecord, encodeRecord, encodeRoute } from '../../publish/stored-record.ts';
import { maxObjectBytes, openS3Store, type S3Settings, type S3Store } from './s3-client.ts';

/** Name of the metadata with topic, key and headers, in Base64, because metadata is ASCII. */
const routeMetadata = 'svc-route';
/** S3 accepts 2 KB of metadata. A longer route is stored with the event as a record. */
const maxRouteLength = 1_800;

/** The number of sockets of the SDK. A request that waits for a socket would spend its time limit there. */
const maxRequests = 50;
/** The caller has given up by then, see `EventBackupStrategy`. */
const longestWaitMs = 30_000;

/**
 * Events as objects, `<prefix>/yyyy/MM/dd/<eventId>.json` by the UTC day of the backup. An existing object is the same event,
 * and stays. The AWS SDK is loaded at the first event.
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
      await new Promise<void>((resolve) => requests.acquire(resolve));
      try {
        if (systemClock.monotonic() - sinceMs > longestWaitMs) throw tooSlow(settings.bucket);
        await store.put(keyOf(settings.prefix, event), body, fits ? { [routeMetadata]: route } : {});
      } finally {
        requests.release();
      }
    },
    async close() {
      (await opening)?.close();
    },
  };
}

/**
 * Stores a probe that no recovery reads, and deletes it. Rejects with one line if the bucket refuses it. Resolves with its key
 * if deleting is not allowed, so that it stays.
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

/** An object of this size could not be read again. */
function tooLarge(bucket: string, bytes: number): SvcError {
  const message = `an event of ${bytes} bytes is more than svc stores in S3 bucket "${bucket}" in one piece (${maxObjectBytes} bytes)`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}

function tooSlow(bucket: string): SvcError {
  const message = `S3 bucket "${bucket}" is too slow for the events`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

function keyOf(prefix: string, { eventId, backedUpAt }: BackupEvent): string {
  const day = new Date(backedUpAt).toISOString().slice(0, 10).replaceAll('-', '/');
  return `${folderOf(prefix)}${day}/${backupName(eventId)}.json`;
}

/** Without a leading slash and without `..`, which tools that copy a bucket to files would follow. */
function folderOf(prefix: string): string {
  const parts = prefix.split('/').filter((part) => part !== '' && part !== '.' && part !== '..');
  return parts.length === 0 ? '' : `${parts.join('/')}/`;
}

const recovered = 'recovered/';
const atOnce = 16;
const batchBytes = 16 * 1024 * 1024;
/** In one run. */
const mostKeys = 1_000_000;
/** S3's limit. It counts bytes, and each character has at least one. */
const longestKey = 1_024;
/** A recovery sends thousands of requests. One refusal of a busy store must not end it. */
const attempts = 3;

interface Entry {
  readonly key: string;
  /** From the list. Further bytes are not read. */
  readonly bytes: number;
  /** Why it is not read. */
  readonly reason: string | undefined;
}

/** The objects of an S3 backup, oldest day first. Handled ones move to `<prefix>/recovered/`. A bucket has no lock. */
export function createS3Source(settings: S3Settings): RecoverySource {
  const folder = folderOf(settings.prefix);
  let store: S3Store | undefined;
  /** The content that was read. Another content under the same key was not sent, so it is not moved. */
  const etags = new WeakMap<StoredEvent, string | undefined>();

  async function* listed(): AsyncGenerator<Entry> {
    for await (const { Key: key, Size: size } of (store as S3Store).list(folder)) {
      if (typeof key !== 'string' || !key.endsWith('.json') || key.startsWith(folder + recovered)) continue;
      const bytes = typeof size === 'number' && size >= 0 ? size : maxObjectBytes;
      yield { key, bytes: Math.min(bytes, maxObjectBytes), reason: whyNot(key, bytes) };
    }
  }

  /** A store that lists foreign keys would have them moved or deleted. */
  function whyNot(key: string, bytes: number): string | undefined {
    const parts = key.split('/');
    if (!key.startsWith(folder) || parts.includes('..') || parts.includes('.') || key.length > longestKey)
      return 'it is not a key of this backup';
    return bytes > maxObjectBytes ? 'it is larger than any event' : undefined;
  }

  async function readEvent({ key, bytes, reason }: Entry): Promise<StoredEvent | Unreadable> {
    if (reason !== undefined) return { place: key, reason };
    const object = await (store as S3Store).get(key, bytes);
    if (typeof object === 'string') return { place: key, reason: object };
    const { body, metadata } = object;
    const encoded = metadata[routeMetadata];
    const route = encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString();
    const record = route === undefined ? decodeRecord(body.toString(), key) : undefined;
    const event = record ?? decodeEvent(body, route, key);
    if (event === undefined) return { place: key, reason: 'it holds no event' };
    etags.set(event, object.etag);
    return event;
  }

  return {
    name: `S3 bucket ${settings.bucket}`,
    async open() {
      store = await openS3Store({ ...settings, attempts });
    },
    async count() {
      let count = 0;
      for await (const _ of listed()) count++;
      return count;
    },
    async *read(size) {
      // Lists all keys first, because moved objects would shift the pages of the list.
      const all = new Map<string, Entry>();
      let isCut = false;
      for await (const entry of listed()) {
        isCut = all.size >= mostKeys;
        if (isCut) break;
        all.set(entry.key, entry);
      }
      for (const entries of inBatches(all.values(), Math.min(size, atOnce))) {
        const found = await Promise.all(entries.map(readEvent));
        yield {
          events: found.filter((one): one is StoredEvent => 'value' in one),
          unreadable: found.filter((one): one is Unreadable => !('value' in one)),
        };
      }
      const reason = `there are more than ${mostKeys} objects: run the command again for the rest`;
      if (isCut) yield { events: [], unreadable: [{ place: folder, reason }] };
    },
    async done(events) {
      await Promise.all(
        events.map((event) => {
          const to = folder + recovered + event.place.slice(folder.length);
          return (store as S3Store).move(event.place, to, etags.get(event));
        }),
      );
    },
    async close() {
      store?.close();
    },
  };
}

/** Batches of at most `most` entries and `batchBytes`. A larger entry comes alone. */
function* inBatches(entries: Iterable<Entry>, most: number): Generator<Entry[]> {
  let batch: Entry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    if (batch.length > 0 && (batch.length >= most || bytes + entry.bytes > batchBytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += entry.bytes;
  }
  if (batch.length > 0) yield batch;
}

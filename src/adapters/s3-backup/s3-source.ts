import type { RecoverySource, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { decodeEvent, decodeRecord } from '../../publish/stored-record.ts';
import { folderOf, routeMetadata } from './s3-backup.ts';
import { openS3Store, type S3Settings, type S3Store } from './s3-client.ts';

const recovered = 'recovered/';
const atOnce = 16;
/** Thousands of requests to a store that is busy now and then: one of them that is refused does not end the run. */
const attempts = 3;

/** The objects of an S3 backup, oldest day first. Processed ones move to `<prefix>/recovered/`. Nothing locks a bucket. */
export function createS3Source(settings: S3Settings): RecoverySource {
  const folder = folderOf(settings.prefix);
  let store: S3Store | undefined;

  async function* keys(): AsyncGenerator<string> {
    for await (const key of (store as S3Store).list(folder)) {
      if (key.endsWith('.json') && !key.startsWith(folder + recovered)) yield key;
    }
  }

  async function readEvent(key: string): Promise<StoredEvent | Unreadable> {
    const object = await (store as S3Store).get(key);
    if (typeof object === 'string') return { place: key, reason: object };
    const { body, metadata } = object;
    const encoded = metadata[routeMetadata];
    const route = encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString();
    const record = route === undefined ? decodeRecord(body.toString(), key) : undefined;
    return record ?? decodeEvent(body, route, key) ?? { place: key, reason: 'it holds no event' };
  }

  return {
    name: `S3 bucket ${settings.bucket}`,
    async open() {
      store = await openS3Store({ ...settings, attempts });
    },
    async count() {
      let count = 0;
      for await (const _ of keys()) count++;
      return count;
    },
    async *read(size) {
      // The keys first: what is moved meanwhile must not shift the pages of the list.
      const all: string[] = [];
      for await (const key of keys()) all.push(key);
      const step = Math.min(size, atOnce);
      for (let at = 0; at < all.length; at += step) {
        const found = await Promise.all(all.slice(at, at + step).map(readEvent));
        yield {
          events: found.filter((one): one is StoredEvent => 'value' in one),
          unreadable: found.filter((one): one is Unreadable => !('value' in one)),
        };
      }
    },
    async done(events) {
      await Promise.all(
        events.map(({ place }) =>
          (store as S3Store).move(place, folder + recovered + place.slice(folder.length)),
        ),
      );
    },
    async close() {
      store?.close();
    },
  };
}

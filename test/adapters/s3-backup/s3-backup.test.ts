import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { s3Backup } from '../../../src/adapters/s3-backup/s3-backup.ts';
import type { RecoverySource, StoredBatch, StoredEvent } from '../../../src/publish/recovery-source.ts';
import { keepEnvironment } from '../../support/environment.ts';
import { useClock } from '../../support/fake-time.ts';
import { backupEvent, routeOf } from '../local-backup/backup-folder.ts';
import { type FakeS3, startFakeS3, type Trouble } from './fake-s3.ts';

type S3Settings = Parameters<typeof s3Backup.open>[0];

const day = '2026/05/28';

describe('S3 backup', () => {
  let s3: FakeS3;
  const restoreEnvironment = keepEnvironment();
  before(async () => {
    s3 = await startFakeS3();
    process.env.AWS_ACCESS_KEY_ID = 'key';
    process.env.AWS_SECRET_ACCESS_KEY = 'secret';
  });
  after(async () => {
    restoreEnvironment();
    await s3.close();
  });
  beforeEach(() => {
    s3.trouble = 'none';
    s3.objects.clear();
    s3.requests.length = 0;
    s3.unreadable.clear();
  });

  const settings = (rest: Partial<S3Settings> = {}): S3Settings => ({
    bucket: 'bucket',
    prefix: 'dlq-backup',
    endpoint: s3.endpoint,
    timeoutMs: 5_000,
    ...rest,
  });

  async function eventsOf(source: RecoverySource): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    for await (const batch of source.read(3)) events.push(...batch.events);
    return events;
  }

  it('puts the event itself under prefix, day and id, and gives bytes, topic, key and headers back', async () => {
    const event = backupEvent('281474976710656', { key: 'Zoë ✓', topic: 'orders' });
    await s3Backup.open(settings()).store(event);
    assert.deepEqual([...s3.objects.keys()], [`dlq-backup/${day}/281474976710656.json`]);
    assert.ok(s3.objects.values().next().value?.body.equals(event.value));
    const source = s3Backup.source(settings());
    await source.open(true);
    assert.deepEqual((await eventsOf(source)).map(routeOf), [routeOf(event)]);
  });

  it('gives as many headers back as an event may have', async () => {
    const added = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`x-${n}`, 'é'.repeat(4_096)]));
    const event = backupEvent('281474976710656', {
      headers: { ...backupEvent('281474976710656').headers, ...added },
    });
    await s3Backup.open(settings()).store(event);
    const source = s3Backup.source(settings());
    await source.open(true);
    assert.deepEqual((await eventsOf(source)).map(routeOf), [routeOf(event)]);
  });

  it('stores more at once than there are sockets: waiting for one does not count as waiting for S3', async function () {
    this.timeout(30_000);
    s3.trouble = 'slow';
    const backup = s3Backup.open(settings({ timeoutMs: 3_000 }));
    const ids = Array.from({ length: 300 }, (_, index) => String(1_000_000 + index));
    // Six times as many as sockets, at 0.7 s each.
    await Promise.allSettled(ids.map((id) => backup.store(backupEvent(id))));
    assert.equal(s3.objects.size, 300);
  });

  it('does not send any more what has waited for a socket for longer than anybody waits for it', async () => {
    s3.trouble = 'slow';
    const backup = s3Backup.open(settings());
    await backup.store(backupEvent('1'));
    let nowMs = 0;
    useClock({ monotonic: () => nowMs });
    try {
      const ids = Array.from({ length: 51 }, (_, index) => String(2_000_000 + index));
      const stores = ids.map((id) => backup.store(backupEvent(id)));
      const answers = Promise.allSettled(stores);
      await sleep(200);
      nowMs = 30_001;
      assert.deepEqual(
        (await answers).map(({ status }) => status),
        [...Array(50).fill('fulfilled'), 'rejected'],
      );
      await assert.rejects(stores[50] as Promise<void>, /S3 bucket "bucket" is too slow/);
      assert.equal(s3.objects.size, 51);
    } finally {
    }
  });

  it('keeps a key with more to say than metadata holds', async () => {
    const event = backupEvent('1', { key: 'k'.repeat(3_000) });
    await s3Backup.open(settings()).store(event);
    const source = s3Backup.source(settings());
    await source.open(false);
    assert.deepEqual((await eventsOf(source)).map(routeOf), [routeOf(event)]);
  });

  it('an object that is there is the same event: stored, and untouched', async () => {
    const backup = s3Backup.open(settings());
    await backup.store(backupEvent('1'));
    await backup.store(backupEvent('1', { value: Buffer.from('other') }));
    assert.equal(s3.objects.size, 1);
    assert.notEqual(s3.objects.values().next().value?.body.toString(), 'other');
  });

  it('a store without conditional puts is served without', async () => {
    s3.trouble = 'no conditional put';
    const backup = s3Backup.open(settings());
    await backup.store(backupEvent('1'));
    await backup.store(backupEvent('2'));
    assert.equal(s3.objects.size, 2);
    assert.equal(s3.requests.length, 3, 'it is asked once');
  });

  for (const [trouble, requests] of [
    ['no checksums (B2)', 4],
    ['no checksums (R2)', 4],
    ['no checksums, no conditional put', 5],
    ['no checksums, and no word', 5],
  ] as const) {
    it(`a store that refuses checksums is sent none, and one line says so: ${trouble}`, async () => {
      s3.trouble = trouble;
      const lines: string[] = [];
      const backup = s3Backup.open(settings({ onNoChecksums: (line) => lines.push(line) }));
      await backup.store(backupEvent('1'));
      await backup.store(backupEvent('2'));
      assert.equal(s3.objects.size, 2);
      assert.ok(s3.requests.length <= requests, s3.requests.join());
      assert.equal(lines.length, 1);
      assert.match(lines[0] ?? '', /refuses the checksum .* AWS_REQUEST_CHECKSUM_CALCULATION=WHEN_REQUIRED/);
      // Objects are still not written twice, where the store knows how.
      await backup.store(backupEvent('1', { value: Buffer.from('other') }));
      const isOther = [...s3.objects.values()].some(({ body }) => body.toString() === 'other');
      assert.equal(isOther, trouble.endsWith('no conditional put'));
      const source = s3Backup.source(settings());
      await source.open(false);
      assert.equal((await eventsOf(source)).length, 2);
    });
  }

  it('has no key outside its prefix', async () => {
    const backup = s3Backup.open(settings({ prefix: '/../a//./b/' }));
    await backup.store(backupEvent('../../esc'));
    await s3Backup.open(settings({ prefix: '' })).store(backupEvent('2'));
    const keys = [...s3.objects.keys()];
    assert.match(keys[0] as string, new RegExp(`^a/b/${day}/h-[0-9a-f]{40}\\.json$`));
    assert.equal(keys[1], `${day}/2.json`);
  });

  const troubles: [Trouble, RegExp][] = [
    ['hang', /no answer within 300 ms$/],
    ['reset', /the connection was cut$/],
    ['500', /the request failed \(InternalError, 500\)$/],
    ['503', /the request failed \(SlowDown, 503\)$/],
    ['NoSuchBucket', /the bucket does not exist/],
    ['AccessDenied', /access denied: the credentials need/],
    ['SignatureDoesNotMatch', /the credentials were refused/],
  ];
  for (const [trouble, says] of troubles) {
    it(`${trouble}: one line, quickly, and one request`, async () => {
      s3.trouble = trouble;
      const started = performance.now();
      await assert.rejects(
        s3Backup.open(settings(trouble === 'hang' ? { timeoutMs: 300 } : {})).store(backupEvent('1')),
        (error: Error & { code: string }) => {
          assert.equal(error.code, 'SVC_ADAPTERS_BACKUP_FAILED');
          assert.match(error.message, /^S3 bucket "bucket" at http/);
          assert.match(error.message, says);
          assert.doesNotMatch(error.message, /secret-key/);
          return true;
        },
      );
      assert.ok(performance.now() - started < 3_000);
      assert.equal(s3.requests.length, 1);
    });
  }

  for (const [trouble, requests] of [
    ['MD5, and no HEAD', 1],
    ['ETags of KMS, and no HEAD', 1],
    ['ETags of its own', 2],
  ] as [Trouble, number][]) {
    it(`${trouble}: stored, after ${requests} requests`, async () => {
      s3.trouble = trouble;
      await s3Backup.open(settings()).store(backupEvent('1'));
      assert.equal(s3.objects.size, 1);
      assert.equal(s3.requests.length, requests);
    });
  }

  for (const [trouble, status] of [
    ['a page with 200', 200],
    ['empty 200', 200],
    ['412 to all', 412],
    ['a page with 412', 412],
    ['ETags that lie', 200],
    ['ETags of its own, and no HEAD', 200],
  ] as [Trouble, number][]) {
    it(`${trouble}: not stored, in one line that says what answered`, async () => {
      s3.trouble = trouble;
      await assert.rejects(s3Backup.open(settings()).store(backupEvent('1')), {
        code: 'SVC_ADAPTERS_BACKUP_FAILED',
        message: `S3 bucket "bucket" at ${s3.endpoint}: the server there answered ${status}, but shows no object: check svc.broker.backup.s3-endpoint, and that the credentials have the permission s3:GetObject`,
      });
    });
  }

  it('412 for an object that nobody may look at: not stored here', async () => {
    const backup = s3Backup.open(settings());
    await backup.store(backupEvent('1'));
    s3.trouble = '412 without HEAD';
    await assert.rejects(backup.store(backupEvent('1')), /answered 412, but shows no object/);
  });

  it('nothing listens there', async () => {
    const backup = s3Backup.open(settings({ endpoint: 'http://127.0.0.1:1' }));
    await assert.rejects(backup.store(backupEvent('1')), /nothing listens there/);
  });

  it('recovery: over several pages, processed objects move to recovered/, a second run finds nothing', async () => {
    const backup = s3Backup.open(settings());
    for (const id of ['1', '2', '3', '4', '5']) await backup.store(backupEvent(id));
    s3.objects.set('dlq-backup/notes.json', { body: Buffer.from('hello'), metadata: {} });
    const source = s3Backup.source(settings());
    await source.open(true);
    assert.equal(await source.count(), 6);
    const unreadable: string[] = [];
    for await (const batch of source.read(2)) {
      unreadable.push(...batch.unreadable.map(({ place }) => place));
      await source.done(batch.events);
    }
    assert.deepEqual(unreadable, ['dlq-backup/notes.json']);
    assert.deepEqual(
      [...s3.objects.keys()].sort(),
      [
        'dlq-backup/notes.json',
        ...[1, 2, 3, 4, 5].map((id) => `dlq-backup/recovered/${day}/${id}.json`),
      ].sort(),
    );
    assert.deepEqual(await eventsOf(source), []);
    await source.close();
  });

  it('recovery: an object that somebody writes anew after it was read stays, and is sent by the next run', async () => {
    const backup = s3Backup.open(settings());
    for (const id of ['1', '2']) await backup.store(backupEvent(id));
    const source = s3Backup.source(settings());
    await source.open(true);
    const { value } = await source.read(2)[Symbol.asyncIterator]().next();
    const { events } = value as StoredBatch;
    const [changed] = events as [StoredEvent];
    const metadata = s3.objects.get(changed.place)?.metadata ?? {};
    const body = Buffer.from('{"eventId":"3"}');
    s3.objects.set(changed.place, { body, metadata });
    await source.done(events);
    assert.deepEqual(
      [...s3.objects.keys()].filter((key) => !key.includes('/recovered/')),
      [changed.place],
    );
    assert.equal((await eventsOf(source)).length, 1);
    await source.close();
  });

  it('recovery: one object that cannot be had does not stop the others', async () => {
    const backup = s3Backup.open(settings());
    for (const id of ['1', '2', '3']) await backup.store(backupEvent(id));
    const [archived, , gone] = [...s3.objects.keys()] as [string, string, string];
    s3.unreadable.set(archived, 'InvalidObjectState');
    const source = s3Backup.source(settings());
    await source.open(true);
    const reading = source.read(3)[Symbol.asyncIterator]();
    s3.unreadable.set(gone, 'NoSuchKey');
    const { events, unreadable } = (await reading.next()).value as StoredBatch;
    assert.deepEqual(
      [events.map(({ eventId }) => eventId), unreadable],
      [
        ['2'],
        [
          { place: archived, reason: 'it is in an archive: restore it in S3 first' },
          { place: gone, reason: 'it no longer exists' },
        ],
      ],
    );
    // Another recovery was quicker.
    s3.objects.delete(events[0]?.place as string);
    await source.done(events);
    await source.close();
  });

  it('recovery: a store that is busy now and then is asked up to three times', async () => {
    const backup = s3Backup.open(settings());
    for (const id of ['1', '2', '3']) await backup.store(backupEvent(id));
    const source = s3Backup.source(settings());
    await source.open(true);
    s3.busyFor = 2;
    const events = await eventsOf(source);
    assert.equal(events.length, 3);
    s3.busyFor = 2;
    await source.done(events);
    assert.deepEqual(await eventsOf(source), []);
    s3.busyFor = 3;
    await assert.rejects(source.count(), /the request failed \(SlowDown, 503\)$/);
    assert.equal(await source.count(), 0);
    await source.close();
  });

  it('recovery: an answer that stops half-way is one line as well', async () => {
    await s3Backup.open(settings()).store(backupEvent('1'));
    s3.trouble = 'hang in body';
    const source = s3Backup.source(settings({ timeoutMs: 300 }));
    await source.open(false);
    await assert.rejects(eventsOf(source), /the connection was cut|no answer within 300 ms/);
  });
});

import assert from 'node:assert/strict';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { bucketsFolder, type S3Server, startS3Server } from '../../../scripts/services/s3.ts';
import { s3Backup } from '../../../src/adapters/s3-backup/s3-backup.ts';
import type { StoredEvent } from '../../../src/publish/recovery-source.ts';
import { keepEnvironment } from '../../support/environment.ts';
import { requiring } from '../../support/requires.ts';
import { backupEvent, routeOf } from '../local-backup/backup-folder.ts';

type S3Settings = Parameters<typeof s3Backup.open>[0];

requiring('own-s3', 'S3 backup on a real server', function () {
  this.timeout(60_000);
  let server: S3Server;
  let buckets: string;
  const restoreEnvironment = keepEnvironment();

  before(async () => {
    server = await startS3Server();
    assert.ok(server.local);
    buckets = bucketsFolder(server.local);
    await mkdir(join(buckets, 'orders-backup'));
  });
  beforeEach(() => {
    process.env.AWS_ACCESS_KEY_ID = server.accessKey;
    process.env.AWS_SECRET_ACCESS_KEY = server.secretKey;
  });
  after(async () => {
    restoreEnvironment();
    await server.local?.stop();
  });

  const settings = (rest: Partial<S3Settings> = {}): S3Settings => ({
    bucket: 'orders-backup',
    prefix: 'dlq-backup',
    endpoint: server.endpoint,
    ...rest,
  });

  it('keeps the bytes as they are, and never overwrites them', async () => {
    const backup = s3Backup.open(settings());
    const event = backupEvent('281474976710656', { key: 'Zoë ✓' });
    await backup.store(event);
    const file = join(buckets, 'orders-backup/dlq-backup/2026/05/28/281474976710656.json');
    assert.ok((await readFile(file)).equals(event.value));
    await backup.store(backupEvent('281474976710656', { value: Buffer.from('other') }));
    assert.ok((await readFile(file)).equals(event.value));
  });

  it('recovers all of it, over more than one page, and not a second time', async () => {
    const prefix = 'many';
    const backup = s3Backup.open(settings({ prefix }));
    const ids = Array.from({ length: 1_100 }, (_, index) => String(1_000_000 + index));
    for (let at = 0; at < ids.length; at += 20) {
      await Promise.all(ids.slice(at, at + 20).map((id) => backup.store(backupEvent(id))));
    }
    const source = s3Backup.source(settings({ prefix }));
    await source.open(true);
    assert.equal(await source.count(), 1_100);
    const events: StoredEvent[] = [];
    for await (const batch of source.read(100)) {
      events.push(...batch.events);
      await source.done(batch.events);
    }
    assert.deepEqual(
      events.map(routeOf),
      ids.map((id) => routeOf(backupEvent(id))),
    );
    assert.equal(await source.count(), 0);
    await source.close();
    assert.equal((await readdir(join(buckets, 'orders-backup/many/recovered/2026/05/28'))).length, 1_100);
  });

  it('leaves an object where it is that somebody has written anew since it was read', async () => {
    const prefix = 'changed';
    const backup = s3Backup.open(settings({ prefix }));
    for (const id of ['1', '2']) await backup.store(backupEvent(id));
    const source = s3Backup.source(settings({ prefix }));
    await source.open(true);
    const { value } = await source.read(2)[Symbol.asyncIterator]().next();
    const { events } = value as { events: StoredEvent[] };
    const place = events[0]?.place as string;
    const client = new S3Client({ endpoint: server.endpoint, forcePathStyle: true, region: 'us-east-1' });
    await client.send(
      new PutObjectCommand({ Bucket: settings().bucket, Key: place, Body: '{"eventId":"3"}' }),
    );
    client.destroy();
    await source.done(events);
    const left: unknown[] = [];
    for await (const batch of source.read(9)) left.push(...batch.events, ...batch.unreadable);
    assert.deepEqual(
      left.map((one) => (one as { place: string }).place),
      [place],
    );
    await source.close();
  });

  for (const [what, rest, key, secret, says] of [
    [
      'a bucket that does not exist',
      { bucket: 'nothing-here' },
      undefined,
      undefined,
      /the bucket does not exist/,
    ],
    ['a wrong secret', {}, undefined, 'wrong', /the credentials were refused/],
    ['an unknown key', {}, 'unknown', undefined, /the credentials were refused/],
  ] as const) {
    it(`${what}: one line that says what to do`, async () => {
      if (key !== undefined) process.env.AWS_ACCESS_KEY_ID = key;
      if (secret !== undefined) process.env.AWS_SECRET_ACCESS_KEY = secret;
      await assert.rejects(s3Backup.open(settings(rest)).store(backupEvent('1')), says);
    });
  }

  it('a server that stands still fails in time, and works again afterwards', async () => {
    const backup = s3Backup.open(settings({ timeoutMs: 500, prefix: 'paused' }));
    await backup.store(backupEvent('1'));
    await server.local?.pause();
    try {
      await assert.rejects(backup.store(backupEvent('2')), /no answer within 500 ms/);
    } finally {
      server.local?.resume();
    }
    await backup.store(backupEvent('3'));
  });
});

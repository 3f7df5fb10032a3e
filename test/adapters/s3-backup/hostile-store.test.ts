import assert from 'node:assert/strict';
import { s3Backup } from '../../../src/adapters/s3-backup/s3-backup.ts';
import { registerS3Client } from '../../../src/ground/own-parts.ts';
import type { Unreadable } from '../../../src/publish/recovery-source.ts';
import { keepEnvironment } from '../../support/environment.ts';
import { backupEvent } from '../local-backup/backup-folder.ts';
import { type FakeS3, startFakeS3 } from './fake-s3.ts';

type S3Settings = Parameters<typeof s3Backup.open>[0];

const day = '2026/05/28';
const maxObjectBytes = 128 * 1024 * 1024;
const maxAnswerBytes = 16 * 1024 * 1024;
const maxPages = 10_000;
const contents = (key: string, size: number): string =>
  `<Contents><Key>${key}</Key><Size>${size}</Size></Contents>`;
const truncated = (token: string): string =>
  `<IsTruncated>true</IsTruncated><NextContinuationToken>${token}</NextContinuationToken>`;

describe('a store that is not trusted', function () {
  this.timeout(30_000);
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
    s3.objects.clear();
    s3.requests.length = 0;
    s3.page = undefined;
    s3.endless = undefined;
    s3.bytesSent = 0;
  });
  const settings = (): S3Settings => ({ bucket: 'bucket', prefix: 'dlq-backup', endpoint: s3.endpoint });

  async function restore(): Promise<{ ids: string[]; unreadable: Unreadable[]; batches: number }> {
    const source = s3Backup.source(settings());
    await source.open(true);
    const ids: string[] = [];
    const unreadable: Unreadable[] = [];
    let batches = 0;
    try {
      for await (const batch of source.read(500)) {
        batches++;
        ids.push(...batch.events.map(({ eventId }) => eventId));
        unreadable.push(...batch.unreadable);
        await source.done(batch.events);
      }
    } finally {
      await source.close();
    }
    return { ids, unreadable, batches };
  }

  it('keys that are none of this backup are named, and neither read, moved nor deleted', async () => {
    await s3Backup.open(settings()).store(backupEvent('1'));
    const own = `dlq-backup/${day}/1.json`;
    const foreign = ['other/2.json', 'dlq-backup/../other/2.json', 'dlq-backup/./2.json', 'dlq-backup'];
    const long = `dlq-backup/${'x'.repeat(1_024 - 'dlq-backup/.json'.length)}.json`;
    s3.objects.set('other/2.json', { body: Buffer.from('{"eventId":"2"}'), metadata: {} });
    s3.page = () =>
      [...foreign.slice(0, 3), own, own, long, `${long.slice(0, -5)}x.json`]
        .map((key) => contents(key, 5_000))
        .join('');
    const { ids, unreadable } = await restore();
    assert.deepEqual(ids, ['1'], 'once, although it is listed twice');
    assert.deepEqual(
      unreadable.map(({ place, reason }) => [place.slice(0, 26), reason]),
      [
        ...foreign.slice(0, 3).map((key) => [key, 'it is not a key of this backup']),
        [long.slice(0, 26), 'it no longer exists'],
        [long.slice(0, 26), 'it is not a key of this backup'],
      ],
    );
    assert.ok(s3.objects.has('other/2.json'));
    assert.deepEqual(
      s3.requests.filter((request) => request.includes('other') || request.startsWith('DELETE')),
      [`DELETE ${own}`],
    );
  });

  it('an object is read as far as the list says, and not beyond: the others are sent', async () => {
    await s3Backup.open(settings()).store(backupEvent('1'));
    await s3Backup.open(settings()).store(backupEvent('2'));
    const key = (id: number): string => `dlq-backup/${day}/${id}.json`;
    const size = s3.objects.get(key(1))?.body.length as number;
    s3.endless = key(3);
    s3.page = () =>
      [contents(key(1), size - 1), contents(key(2), size), contents(key(3), 100_000)].join('') +
      contents(key(4), maxObjectBytes + 1);
    const { ids, unreadable } = await restore();
    assert.deepEqual(ids, ['2']);
    const tooMuch = 'it is larger than the list says, or than any event';
    assert.deepEqual(unreadable, [
      { place: key(1), reason: tooMuch },
      { place: key(3), reason: tooMuch },
      { place: key(4), reason: 'it is larger than any event' },
    ]);
    assert.ok(s3.bytesSent < 16 * 1024 * 1024, `${s3.bytesSent}`);
  });

  it('what could not be read again is not written: the first size that is refused', async () => {
    const value = Buffer.alloc(maxObjectBytes + 1);
    await assert.rejects(s3Backup.open(settings()).store(backupEvent('1', { value })), {
      code: 'SVC_ADAPTERS_BACKUP_FULL',
    });
    assert.deepEqual(s3.requests, []);
  });

  it('large objects are read one after the other', async () => {
    const large = 10 * 1024 * 1024;
    const value = Buffer.from(JSON.stringify({ eventId: '1', text: 'x'.repeat(large) }));
    for (const id of ['1', '2', '3']) await s3Backup.open(settings()).store(backupEvent(id, { value }));
    const { ids, batches } = await restore();
    assert.deepEqual([ids.length, batches], [3, 3]);
  });

  it('a list that goes round in a circle ends in one line', async () => {
    s3.page = (token) => truncated(token === 'b' ? 'a' : 'b');
    await assert.rejects(restore(), {
      code: 'SVC_ADAPTERS_BACKUP_FAILED',
      message: /its list of objects does not end$/,
    });
    assert.ok(s3.requests.length < 20, `${s3.requests.length}`);
  });

  it('a page of the list that does not end is one line, in bounded memory', async () => {
    s3.page = () => 'endless';
    await assert.rejects(restore(), { message: /its response is too large for S3$/ });
    assert.ok(s3.bytesSent < 3 * maxAnswerBytes, `${s3.bytesSent}`);
  });

  it('a list has as many pages as it says, up to a number', async () => {
    const pagesOf = async (max: number): Promise<number> => {
      let count = 0;
      const page = async (): Promise<object> =>
        ++count === max ? {} : { Contents: [], NextContinuationToken: `t${count}` };
      const unregister = registerS3Client({ send: page });
      try {
        const source = s3Backup.source(settings());
        await source.open(true);
        assert.equal(await source.count(), 0);
        return count;
      } finally {
        unregister();
      }
    };
    assert.equal(await pagesOf(maxPages), maxPages);
    await assert.rejects(pagesOf(maxPages + 1), {
      code: 'SVC_ADAPTERS_BACKUP_FAILED',
      message: /its list of objects does not end$/,
    });
  });
});

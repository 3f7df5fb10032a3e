import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import sinon from 'sinon';
import { removeOldTemporaries } from '../../../src/adapters/local-backup/backup-directory.ts';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import { eventFilesIn } from '../../../src/adapters/local-backup/segment.ts';
import type { Unreadable } from '../../../src/publish/recovery-source.ts';
import { requiring } from '../../support/requires.ts';
import { backupEvent, backupIn, freshPath, namesIn } from './backup-folder.ts';

const maxDoneBytes = 16 * 1024 ** 2;
const maxRouteBytes = 1024 ** 2;
const maxEventBytes = 128 * 1024 ** 2;

interface Restored {
  readonly count: number | undefined;
  readonly ids: string[];
  readonly unreadable: Unreadable[];
}

/** What a restore sends, and what it names. */
async function restore(directory: string): Promise<Restored> {
  const source = createLocalSource({ directory, now: Date.now });
  const ids: string[] = [];
  const unreadable: Unreadable[] = [];
  await source.open(true);
  try {
    const count = await source.count();
    for await (const batch of source.read(10)) {
      ids.push(...batch.events.map(({ eventId }) => eventId));
      unreadable.push(...batch.unreadable);
      await source.done(batch.events);
    }
    return { count, ids, unreadable };
  } finally {
    await source.close();
  }
}

async function stored(count: number, maxFiles: number): Promise<string> {
  const directory = freshPath();
  const backup = backupIn(directory, { maxFiles });
  for (let id = 1_001; id <= 1_000 + count; id++) await backup.store(backupEvent(String(id)));
  await backup.close(1_000);
  return directory;
}

const segmentIn = (directory: string): string =>
  namesIn(directory).find((name) => name.endsWith('.ndjson')) as string;
const sparse = (path: string, bytes: number): void => {
  writeFileSync(path, '');
  truncateSync(path, bytes);
};

describe('what others have put into a backup folder', () => {
  it('a route that is a link is not followed: its event stays and is named, the others are sent', async () => {
    const directory = await stored(3, 10);
    const elsewhere = join(directory, '..', 'foreign.json');
    writeFileSync(elsewhere, '{"topic":"orders","key":null,"headers":{"secret":"x"}}');
    const route = join(directory, 'routes', '1002.json');
    renameSync(route, `${route}.old`);
    symlinkSync(elsewhere, route);
    const { ids, unreadable } = await restore(directory);
    assert.deepEqual(ids, ['1001', '1003']);
    assert.deepEqual(unreadable, [
      { place: '1002.json', reason: 'its route, routes/1002.json: it is not a file' },
    ]);
    assert.deepEqual(namesIn(directory), ['1002.json']);
  });

  it('a routes folder that is a link is refused, and not emptied', async () => {
    const directory = await stored(2, 10);
    const elsewhere = join(directory, '..', 'elsewhere');
    renameSync(join(directory, 'routes'), elsewhere);
    symlinkSync(elsewhere, join(directory, 'routes'));
    const temporary = join(elsewhere, '.0123456789abcdef.tmp');
    writeFileSync(temporary, '');
    utimesSync(temporary, 1, 1);
    await assert.rejects(restore(directory), {
      code: 'SVC_ADAPTERS_BACKUP_DIRECTORY',
      message: /routes" is not used: it is a link or a file, but must be a folder\. Move it away$/,
    });
    await removeOldTemporaries(directory, Date.now());
    assert.deepEqual(readdirSync(elsewhere).sort(), ['.0123456789abcdef.tmp', '1001.json', '1002.json']);
  });

  requiring('pipes', 'where there are named pipes', () => {
    it('a pipe anywhere holds nobody up, neither a restore nor the process that counts its folder', async function () {
      this.timeout(10_000);
      const directory = await stored(6, 3);
      const segment = segmentIn(directory);
      execFileSync('mkfifo', [
        join(directory, 'routes', '1002.json.new'),
        join(directory, `${segment}.done`),
      ]);
      renameSync(join(directory, 'routes', '1002.json.new'), join(directory, 'routes', '1002.json'));
      execFileSync('mkfifo', [join(directory, '2000.json')]);
      await backupIn(directory).recount();
      const { ids, unreadable } = await restore(directory);
      assert.deepEqual(ids, ['1001', '1003', '1004', '1005', '1006']);
      assert.deepEqual(unreadable, [
        { place: `${segment}.done`, reason: 'it is not a file: no line counts as done' },
        { place: '1002.json', reason: 'its route, routes/1002.json: it is not a file' },
        { place: '2000.json', reason: 'it is not a file' },
      ]);
    });
  });

  for (const [what, note] of [
    ['more lines than there are', '[[0,9007199254740991]]'],
    ['the line behind the last one', '[[0,3]]'],
    ['a line before the first one', '[[-1,0]]'],
    ['ranges that overlap', '[[0,1],[1,2]]'],
    ['ranges that run backwards', '[[2,1]]'],
    ['halves of lines', '[[0,1.5]]'],
    ['no list', '{"0":2}'],
    ['half a note', '[[0,1]'],
    ['nothing', ''],
    ['brackets upon brackets', '['.repeat(12_000_000)],
  ] as const) {
    it(`a note of what is done that names ${what} is not believed: all is sent, and it is named`, async () => {
      const directory = await stored(3, 0);
      const segment = segmentIn(directory);
      writeFileSync(join(directory, `${segment}.done`), note);
      const { count, ids, unreadable } = await restore(directory);
      assert.deepEqual([count, ids], [3, ['1001', '1002', '1003']]);
      const reason = 'it names a missing file: no line counts as done';
      assert.deepEqual(unreadable, [{ place: `${segment}.done`, reason }]);
      assert.deepEqual(namesIn(directory), []);
      assert.deepEqual((await restore(directory)).ids, []);
    });
  }

  it('a note that names lines that are there is believed, up to the last one', async () => {
    const directory = await stored(3, 0);
    writeFileSync(join(directory, `${segmentIn(directory)}.done`), '[[0,0],[2,2]]');
    assert.deepEqual(await restore(directory), { count: 1, ids: ['1002'], unreadable: [] });
  });

  it('a note, a route and an event are read up to their limits, and named beyond', async () => {
    const directory = await stored(3, 2);
    const segment = segmentIn(directory);
    writeFileSync(join(directory, `${segment}.done`), ' '.repeat(maxDoneBytes - 2).concat('[]'));
    const route = readFileSync(join(directory, 'routes', '1001.json'), 'utf8').trim();
    writeFileSync(
      join(directory, 'routes', '1001.json'),
      route + ' '.repeat(maxRouteBytes - Buffer.byteLength(route)),
    );
    assert.deepEqual((await restore(directory)).unreadable, []);

    const again = await stored(3, 2);
    const other = segmentIn(again);
    sparse(join(again, `${other}.done`), maxDoneBytes + 1);
    writeFileSync(
      join(again, 'routes', '1001.json'),
      route + ' '.repeat(maxRouteBytes + 1 - Buffer.byteLength(route)),
    );
    const reason = (bytes: number): string => `it is larger than ${bytes} bytes, so svc did not write it`;
    const { ids, unreadable } = await restore(again);
    assert.deepEqual(ids, ['1002', '1003']);
    assert.deepEqual(unreadable, [
      { place: `${other}.done`, reason: `${reason(maxDoneBytes)}: no line counts as done` },
      { place: '1001.json', reason: `its route, routes/1001.json: ${reason(maxRouteBytes)}` },
    ]);
  });

  it('a line that is no event is named a hundred times, and counted from there on', async () => {
    const directory = await stored(1, 0);
    const segment = segmentIn(directory);
    const line = readFileSync(join(directory, segment), 'utf8');
    writeFileSync(join(directory, segment), `${'\n'.repeat(1_000)}${line}`);
    const { ids, unreadable } = await restore(directory);
    assert.deepEqual(ids, ['1001']);
    assert.equal(unreadable.length, 101);
    assert.deepEqual(unreadable.at(-1), { place: segment, reason: '900 more lines of it hold no event' });
    assert.ok(existsSync(join(directory, segment)));
  });

  it('an event of nothing but brackets is no event', async () => {
    const directory = await stored(1, 10);
    writeFileSync(join(directory, '2.json'), `{"eventId":"2","payload":${'['.repeat(6_000_000)}`);
    writeFileSync(join(directory, '3.json'), `{"eventId":"3","payload":[${'{},'.repeat(2_000_000)}0]}`);
    const { ids, unreadable } = await restore(directory);
    assert.deepEqual(ids, ['1001']);
    assert.deepEqual(
      unreadable,
      ['2.json', '3.json'].map((place) => ({ place, reason: 'it holds no event' })),
    );
  });

  it('a claim whose time is to come does not hold the folder', async () => {
    const directory = await stored(1, 10);
    mkdirSync(join(directory, '.lock'), { mode: 0o700 });
    const claim = join(directory, '.lock', `backup.00000000.${process.ppid}.0.0.000000000000`);
    writeFileSync(claim, '');
    const inAYear = Date.now() / 1_000 + 31_536_000;
    utimesSync(claim, inAYear, inAYear);
    assert.deepEqual((await restore(directory)).ids, ['1001']);
    assert.equal(existsSync(claim), false);
  });

  it('a file is of this user or of root, and as large as its limit at most', async () => {
    const directory = freshPath();
    mkdirSync(directory);
    writeFileSync(join(directory, '1.json'), '{}');
    const file = await open(join(directory, '1.json'));
    await file.close();
    const user = 12_345;
    /** Why an event file is not read that has this owner and size. */
    const why = async (uid: number, size: number): Promise<string | undefined> => {
      const found = { isFile: () => true, uid, size };
      const stat = sinon.stub(Object.getPrototypeOf(file), 'stat').resolves(found);
      if (process.getuid !== undefined) sinon.stub(process, 'getuid').returns(user);
      try {
        const read = await eventFilesIn(directory).read('1.json');
        assert.equal(stat.callCount, 1);
        return 'reason' in read ? read.reason : undefined;
      } finally {
        sinon.restore();
      }
    };
    assert.deepEqual(
      [await why(user, maxEventBytes), await why(0, 0)],
      ['it holds no event', 'it holds no event'],
    );
    if (process.getuid !== undefined)
      assert.equal(await why(user + 1, 0), `it belongs to another user (id ${user + 1})`);
    assert.match((await why(user, maxEventBytes + 1)) ?? '', /^it is larger than 134217728 bytes/);
  });

  it('what svc could not read again it does not write: the last size that is taken, and the first that is not', async function () {
    this.timeout(60_000);
    for (const maxFiles of [10, 0]) {
      const directory = freshPath();
      const backup = backupIn(directory, { maxFiles });
      const key = 'k'.repeat(maxRouteBytes);
      if (maxFiles > 0)
        await assert.rejects(backup.store(backupEvent('1', { key })), { code: 'SVC_ADAPTERS_BACKUP_FULL' });
      // Each byte that is no text of its own becomes six.
      const value = Buffer.alloc(Math.ceil(maxEventBytes / 6));
      const storing = backup.store(backupEvent('2', { value }));
      if (maxFiles === 0) await assert.rejects(storing, { code: 'SVC_ADAPTERS_BACKUP_FULL' });
      else await storing;
      await backup.store(backupEvent('3'));
      await backup.close(5_000);
      assert.deepEqual((await restore(directory)).ids, maxFiles > 0 ? ['2', '3'] : ['3']);
    }
  });
});

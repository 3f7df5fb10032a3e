import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  promises,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import sinon from 'sinon';
import { openBackupDirectory } from '../../../src/adapters/local-backup/backup-directory.ts';
import { SvcError } from '../../../src/ground/errors.ts';
import { backupName } from '../../../src/publish/tier.ts';
import { until } from '../../support/until.ts';
import { backupEvent, backupIn, contentOf, eventsIn, freshPath, namesIn, routeOf } from './backup-folder.ts';

const many = (count: number, from = 1): ReturnType<typeof backupEvent>[] =>
  Array.from({ length: count }, (_, index) => backupEvent(String(1_000_000 + from + index)));

describe('local backup', () => {
  describe('files', () => {
    it('holds the event itself as <eventId>.json, and restores bytes, topic, key and headers', async () => {
      const directory = freshPath();
      const event = backupEvent('281474976710656');
      await backupIn(directory).store(event);
      assert.deepEqual(namesIn(directory), ['281474976710656.json']);
      assert.equal(contentOf(directory, '281474976710656.json'), event.value.toString());
      const [restored] = await eventsIn(directory);
      assert.deepEqual(routeOf(restored as never), routeOf(event));
      assert.equal(restored?.reason, 'ECONNREFUSED');
      assert.equal(restored?.storedAt, 1_780_000_000_000);
    });

    it('in format record holds reason and time as <epoch_millis>.json, and restores the same', async () => {
      const directory = freshPath();
      const event = backupEvent('7');
      const backup = backupIn(directory, { format: 'record' });
      await backup.store(event);
      await backup.store(backupEvent('8'));
      assert.deepEqual(namesIn(directory), ['1780000000000-1.json', '1780000000000.json']);
      const record = JSON.parse(contentOf(directory, '1780000000000.json'));
      assert.equal(record.eventId, '7');
      assert.equal(record.eventType, 'ORDER_CREATED');
      assert.equal(record.occurredAt, '2026-03-04T10:00:00.120Z');
      assert.equal(record.backupReason, 'ECONNREFUSED');
      assert.equal(record.backupTimestamp, '2026-05-28T20:26:40.000Z');
      assert.deepEqual(record.payload, { n: 'é ✓' });
      assert.deepEqual(routeOf((await eventsIn(directory))[0] as never), routeOf(event));
    });

    it('keeps bytes that are no text, in each form', async () => {
      const value = Buffer.from([0, 255, 128, 10, 13, 34]);
      for (const format of ['event', 'record'] as const) {
        const directory = freshPath();
        const backup = backupIn(directory, { format, maxFiles: 1 });
        await backup.store(backupEvent('1', { value, key: null }));
        await backup.store(backupEvent('2', { value }));
        await backup.finishSegments();
        const events = await eventsIn(directory);
        assert.deepEqual(events.map(routeOf), [
          routeOf(backupEvent('1', { value, key: null })),
          routeOf(backupEvent('2', { value })),
        ]);
      }
    });

    it('keeps a key that is an empty text, in each form: another key would be another partition', async () => {
      for (const [format, maxFiles] of [
        ['event', 9],
        ['record', 9],
        ['event', 0],
      ] as const) {
        const directory = freshPath();
        const backup = backupIn(directory, { format, maxFiles });
        await backup.store(backupEvent('1', { key: '' }));
        await backup.finishSegments();
        assert.equal((await eventsIn(directory))[0]?.key, '');
      }
    });

    it('are 0600 in a folder 0700, whatever the umask', async () => {
      for (const umask of [0o000, 0o277]) {
        const directory = freshPath();
        const before = process.umask(umask);
        try {
          const backup = backupIn(directory, { maxFiles: 1 });
          await backup.store(backupEvent('1'));
          await backup.store(backupEvent('2'));
          backup.storeSync([backupEvent('3')]);
          await backup.close(1_000);
        } finally {
          process.umask(before);
        }
        const modeOf = (name: string) => (statSync(join(directory, name)).mode & 0o777).toString(8);
        assert.equal(modeOf('.'), '700');
        assert.equal(modeOf('routes'), '700');
        for (const name of [...namesIn(directory), 'routes/1.json']) assert.equal(modeOf(name), '600', name);
        assert.equal(namesIn(directory).length, 3);
      }
    });

    it('have safe names: an id that could be a path or a device is hashed', async () => {
      const directory = freshPath();
      const ids = [
        '../../etc/passwd',
        'a/b',
        '..',
        '',
        'CON',
        'x'.repeat(500),
        'a\0b',
        'é',
        'a\nb',
        '.hidden',
        'C:\\x',
        'com1',
      ];
      const backup = backupIn(directory);
      for (const id of ids) await backup.store(backupEvent(id));
      const names = namesIn(directory);
      assert.equal(names.length, ids.length);
      for (const name of names) assert.match(name, /^h-[0-9a-f]{40}\.json$/);
      assert.equal(existsSync(join(dirname(directory), 'etc')), false);
      assert.deepEqual(
        new Set((await eventsIn(directory)).map(({ eventId }) => eventId)).size,
        ids.length - 1,
        'the empty id has no place in the content',
      );
    });

    it('pins the longest and the first refused name', () => {
      assert.equal(backupName('x'.repeat(128)), 'x'.repeat(128));
      assert.match(backupName('x'.repeat(129)), /^h-/);
      assert.match(backupName(null), /^h-/);
      assert.match(backupName({ toString: () => assert.fail('never called') }), /^h-/);
    });

    it('never touch what is there: an event of the same id gets a suffix, a link stays what it is', async () => {
      const directory = freshPath();
      const backup = backupIn(directory);
      await backup.store(backupEvent('1'));
      const target = join(dirname(directory), 'target');
      writeFileSync(target, 'untouched');
      symlinkSync(target, join(directory, '2.json'));
      await backup.store(backupEvent('1'));
      await backup.store(backupEvent('2'));
      assert.deepEqual(namesIn(directory), ['1-1.json', '1.json', '2-1.json', '2.json']);
      assert.equal(readFileSync(target, 'utf8'), 'untouched');
      assert.deepEqual(
        (await eventsIn(directory)).map(({ place }) => place),
        ['1.json', '1-1.json', '2-1.json'],
      );
    });

    it('leave nothing half-written, and no temporary file', async () => {
      const directory = freshPath();
      const backup = backupIn(directory);
      await Promise.all(many(10).map((event) => backup.store(event)));
      const left = execFileSync('find', [directory, '-name', '.*.tmp']).toString();
      assert.equal(left, '');
    });

    it('remove temporary files of a killed process, after an hour', async () => {
      const directory = freshPath();
      mkdirSync(join(directory, 'routes'), { recursive: true, mode: 0o700 });
      const age = (name: string, ageMs: number): string => {
        const path = join(directory, name);
        writeFileSync(path, '');
        const time = new Date(Date.now() - ageMs);
        utimesSync(path, time, time);
        return path;
      };
      const old = age('.0000000000000001.tmp', 3_601_000);
      const young = age('.0000000000000002.tmp', 3_500_000);
      const oldRoute = age('routes/.0000000000000003.tmp', 3_601_000);
      await backupIn(directory).store(backupEvent('1'));
      assert.deepEqual([old, young, oldRoute].map(existsSync), [false, true, false]);
    });
  });

  describe('folder', () => {
    const refusal = (directory: string): Promise<string> =>
      backupIn(directory)
        .store(backupEvent('1'))
        .then(
          () => 'stored',
          (error: unknown) => {
            assert.ok(error instanceof SvcError);
            assert.equal(error.code, 'SVC_ADAPTERS_BACKUP_DIRECTORY');
            return error.message;
          },
        );

    it('is refused when it is a link or a file; one that is open to others gets its own folder', async () => {
      const directory = freshPath();
      mkdirSync(`${directory}-target`, { mode: 0o700 });
      symlinkSync(`${directory}-target`, directory);
      assert.match(await refusal(directory), /symbolic link/);
      const open = freshPath();
      for (const mode of [0o710, 0o701, 0o755]) {
        mkdirSync(open, { recursive: true });
        chmodSync(open, mode);
        assert.equal(await refusal(open), 'stored');
        const [own = ''] = readdirSync(open);
        assert.equal(own, `svc-backup-${process.getuid?.()}`);
        assert.equal(statSync(open).mode & 0o777, mode);
        assert.equal(statSync(join(open, own)).mode & 0o777, 0o700);
      }
      const file = freshPath();
      writeFileSync(file, '');
      assert.match(await refusal(file), /cannot be created \(EEXIST\)/);
    });

    it('is refused below a folder in which everybody may rename things', async () => {
      const directory = freshPath();
      if (process.getuid?.() === 0) execFileSync('chown', ['12345', dirname(directory)]);
      chmodSync(dirname(directory), 0o777);
      assert.match(await refusal(directory), /every user may rename/);
      chmodSync(dirname(directory), 0o1777);
      assert.equal(await refusal(directory), 'stored');
    });

    it('is refused when it belongs to somebody else', () => {
      if (process.getuid?.() === 0) {
        const directory = freshPath();
        mkdirSync(directory, { mode: 0o700 });
        execFileSync('chown', ['12345', directory]);
        assert.throws(
          () => openBackupDirectory(directory),
          /belongs to another user \(id 12345\): run as that user, or chown it$/,
        );
      } else assert.throws(() => openBackupDirectory('/proc/1'), /belongs to another user/);
    });

    it('is made again when somebody removes it', async () => {
      const directory = freshPath();
      const backup = backupIn(directory);
      await backup.store(backupEvent('1'));
      rmSync(directory, { recursive: true });
      await backup.store(backupEvent('3'));
      assert.deepEqual(namesIn(directory), ['3.json']);
    });

    it('on Windows is closed to others with icacls, and refused when that fails', () => {
      const calls: (readonly string[])[] = [];
      const execute = (file: string, args: readonly string[]): void => void calls.push([file, ...args]);
      const env = { USERNAME: 'ann', USERDOMAIN: 'CORP', SystemRoot: 'C:\\Windows' };
      const directory = freshPath();
      const windows = { platform: 'win32', execute, env } as const;
      assert.equal(openBackupDirectory(directory, windows), directory);
      assert.deepEqual(calls, [
        ['C:\\Windows\\System32\\icacls.exe', directory, '/inheritance:r', '/grant:r', 'CORP\\ann:(OI)(CI)F'],
      ]);
      const failing = (): void => {
        throw Object.assign(new Error('secret'), { status: 5 });
      };
      const opening = (changed: object) => () => openBackupDirectory(directory, { ...windows, ...changed });
      assert.throws(opening({ execute: failing }), /icacls failed \(5\)/);
      assert.throws(opening({ env: {} }), /USERNAME is not set/);
    });
  });

  describe('limits', () => {
    it('takes maxBytes, and not one byte more', async () => {
      const directory = freshPath();
      const event = backupEvent('1');
      const backup = backupIn(directory, { maxBytes: event.value.length * 2 });
      await backup.store(event);
      await backup.store(backupEvent('2'));
      await assert.rejects(backup.store(backupEvent('3')), { code: 'SVC_ADAPTERS_BACKUP_FULL' });
      assert.equal(namesIn(directory).length, 2);
      const tight = backupIn(freshPath(), { maxBytes: event.value.length * 2 - 1 });
      await tight.store(event);
      await assert.rejects(tight.store(backupEvent('2')), { code: 'SVC_ADAPTERS_BACKUP_FULL' });
    });

    it('counts what other processes have left there', async () => {
      const directory = freshPath();
      await backupIn(directory).store(backupEvent('1'));
      const backup = backupIn(directory, { maxBytes: backupEvent('1').value.length });
      await assert.rejects(backup.store(backupEvent('2')), { code: 'SVC_ADAPTERS_BACKUP_FULL' });
    });

    it('writes maxFiles files, then segments', async () => {
      const directory = freshPath();
      const backup = backupIn(directory, { maxFiles: 3 });
      for (const event of many(5)) await backup.store(event);
      await backup.finishSegments();
      const names = namesIn(directory);
      assert.equal(names.filter((name) => name.endsWith('.json')).length, 3);
      assert.equal(names.filter((name) => name.endsWith('.ndjson')).length, 1);
      assert.deepEqual((await eventsIn(directory)).map(routeOf), many(5).map(routeOf));
    });
  });

  describe('many events at once', () => {
    it('are on the disk with one segment, which is handed to the readers soon', async () => {
      const directory = freshPath();
      const backup = backupIn(directory);
      await Promise.all(many(17).map((event) => backup.store(event)));
      const [name = '', ...more] = namesIn(directory);
      assert.deepEqual(more, []);
      assert.match(name, /^segment-0{13}-.*\.ndjson\.open$/);
      await until(() => namesIn(directory)[0] === name.replace('.open', ''));
      await backup.store(backupEvent('1000003'));
      assert.deepEqual(namesIn(directory), ['1000003.json', name.replace('.open', '')]);
      const ids = (await eventsIn(directory)).map(({ eventId }) => eventId);
      assert.deepEqual(ids.slice(0, 4), ['1000001', '1000002', '1000003', '1000003']);
      await Promise.all(many(17, 100).map((event) => backup.store(event)));
      await until(() => namesIn(directory).filter((each) => each.endsWith('.ndjson')).length === 2);
      await backup.close(1_000);
    });

    it('are handed over the next time where their segment could not be renamed', async () => {
      const directory = freshPath();
      const backup = backupIn(directory, { format: 'journal' });
      await backup.store(backupEvent('1'));
      const rename = sinon.stub(promises, 'rename').callThrough();
      rename.onFirstCall().rejects(Object.assign(new Error('i/o error'), { code: 'EIO' }));
      syncBuiltinESMExports();
      try {
        await backup.finishSegments();
        assert.match(namesIn(directory).join(), /^segment-.*\.ndjson\.open$/);
        await backup.finishSegments();
        assert.match(namesIn(directory).join(), /^segment-.*\.ndjson$/);
        await backup.finishSegments();
        assert.equal(rename.callCount, 2);
      } finally {
        rename.restore();
        syncBuiltinESMExports();
      }
      await backup.close(1_000);
    });

    it('are one file each up to sixteen', async () => {
      const directory = freshPath();
      const backup = backupIn(directory);
      await Promise.all(many(16).map((event) => backup.store(event)));
      assert.equal(namesIn(directory).filter((name) => name.endsWith('.json')).length, 16);
      await backup.close(1_000);
    });

    it('are handed to the readers although more of them come all the time', async () => {
      const directory = freshPath();
      const backup = backupIn(directory, { maxFiles: 0 });
      let isOver = false;
      let count = 0;
      const steady = async (): Promise<void> => {
        while (!isOver) await backup.store(backupEvent(String(1_000_000 + count++)));
      };
      const streams = Array.from({ length: 20 }, steady);
      await until(() => count > 100);
      const givenProviders = backup.finishSegments().then(() => namesIn(directory));
      try {
        const names = await Promise.race([givenProviders, sleep(5_000, [])]);
        assert.ok(names.some((name) => name.endsWith('.ndjson')));
      } finally {
        isOver = true;
        await Promise.all(streams);
      }
      await backup.close(1_000);
      assert.equal((await eventsIn(directory)).length, count);
    });

    it('go on into a new segment when a reader has taken the one that is written', async () => {
      const directory = freshPath();
      const backup = backupIn(directory, { maxFiles: 0 });
      await backup.store(backupEvent('1'));
      const [open] = namesIn(directory) as [string];
      execFileSync('mv', [join(directory, open), join(directory, open.replace('.open', ''))]);
      await backup.store(backupEvent('2'));
      await backup.finishSegments();
      const ids = (await eventsIn(directory)).map(({ eventId }) => eventId);
      assert.deepEqual([...new Set(ids)].sort(), ['1', '2']);
    });
  });

  it('as a journal writes segments alone, few events or many, to the end of the process', async () => {
    for (const isJournal of [false, true]) {
      const directory = freshPath();
      const backup = backupIn(directory, { format: 'journal', isJournal });
      await backup.store(backupEvent('1'));
      backup.storeSync([backupEvent('2')]);
      backup.endSync();
      const names = namesIn(directory);
      assert.equal(names.length, 2);
      for (const name of names) assert.match(name, /^segment-.*\.ndjson$/);
      assert.deepEqual(
        (await eventsIn(directory)).map(routeOf),
        ['1', '2'].map((id) => routeOf(backupEvent(id))),
      );
      await backup.close(1_000);
    }
  });

  it('at the end of the process stores synchronously: files for a few, a segment for many', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    backup.storeSync(many(64));
    assert.equal(namesIn(directory).length, 64);
    backup.storeSync(many(65, 100));
    assert.equal(namesIn(directory).length, 65);
    assert.deepEqual((await eventsIn(directory)).map(routeOf), [...many(64), ...many(65, 100)].map(routeOf));
  });

  it('at the end of the process stores all events or none: what is said to be lost is not there', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await backup.store(backupEvent('1'));
    // Not to be written as JSON: whatever fails in the middle.
    const bad = backupEvent('4', { key: 1n as never });
    assert.throws(() => backup.storeSync([backupEvent('2'), backupEvent('3'), bad]), {
      code: 'SVC_ADAPTERS_BACKUP_FAILED',
    });
    assert.deepEqual(namesIn(directory), ['1.json']);
    assert.deepEqual(namesIn(join(directory, 'routes')), ['1.json']);
    await backup.close(1_000);
  });

  it('what cannot be forced to the disk is not there, and takes up no room: it is stored elsewhere, or lost', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await backup.store(backupEvent('1'));
    const { bytes } = backup.state();
    const open = sinon.stub(promises, 'open').callThrough();
    open.withArgs(directory).rejects(Object.assign(new Error('too many open files'), { code: 'EMFILE' }));
    syncBuiltinESMExports();
    try {
      await assert.rejects(backup.store(backupEvent('2')), /cannot be written: EMFILE/);
    } finally {
      open.restore();
      syncBuiltinESMExports();
    }
    assert.deepEqual([namesIn(directory), namesIn(join(directory, 'routes'))], [['1.json'], ['1.json']]);
    assert.equal(backup.state().bytes, bytes);
    await backup.store(backupEvent('3'));
    await backup.close(1_000);
  });

  it('a link in the place of routes/ is not followed', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await backup.store(backupEvent('1'));
    rmSync(join(directory, 'routes'), { recursive: true });
    mkdirSync(`${directory}-target`);
    symlinkSync(`${directory}-target`, join(directory, 'routes'));
    await assert.rejects(backup.store(backupEvent('2')), { code: 'SVC_ADAPTERS_BACKUP_DIRECTORY' });
    assert.throws(() => backup.storeSync([backupEvent('2')]), { code: 'SVC_ADAPTERS_BACKUP_DIRECTORY' });
    assert.deepEqual([namesIn(directory), namesIn(`${directory}-target`)], [['1.json'], []]);
    await backup.close(1_000);
  });

  it('takes nothing after close, and finishes its segment', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { maxFiles: 0 });
    await backup.store(backupEvent('1'));
    await backup.close(1_000);
    assert.match(namesIn(directory)[0] as string, /\.ndjson$/);
    await assert.rejects(backup.store(backupEvent('2')), { code: 'SVC_ADAPTERS_BACKUP_FAILED' });
  });
});

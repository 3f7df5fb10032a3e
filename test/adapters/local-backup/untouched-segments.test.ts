import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import type { Unreadable } from '../../../src/publish/recovery-source.ts';
import { requiring } from '../../support/requires.ts';
import { backupEvent, backupIn, freshPath, namesIn } from './backup-folder.ts';

async function read(directory: string, forRecovery: boolean) {
  const source = createLocalSource({ directory, now: Date.now });
  const unreadable: Unreadable[] = [];
  let events = 0;
  await source.open(forRecovery);
  const count = await source.count();
  for await (const batch of source.read(10)) {
    unreadable.push(...batch.unreadable);
    events += batch.events.length;
  }
  await source.close();
  return { count, events, unreadable };
}

describe('a folder that somebody else empties', () => {
  it('a list of it passes over what has been sent meanwhile', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { maxFiles: 3 });
    for (let id = 1_001; id <= 1_006; id++) await backup.store(backupEvent(String(id)));
    await backup.close(1_000);
    const list = createLocalSource({ directory, now: Date.now });
    await list.open(false);
    const ids: string[] = [];
    const unreadable: Unreadable[] = [];
    for await (const batch of list.read(1)) {
      ids.push(...batch.events.map(({ eventId }) => eventId));
      unreadable.push(...batch.unreadable);
      if (batch.events[0]?.eventId !== '1001') continue;
      for (const name of ['1002.json', '1003.json', namesIn(directory).at(-1) as string])
        renameSync(join(directory, name), join(directory, `${name}.gone`));
    }
    assert.deepEqual([ids, unreadable], [['1001'], []]);
  });

  it('a list does not end because a segment is gone', async () => {
    const directory = freshPath();
    mkdirSync(directory, { mode: 0o700 });
    const names = ['1', '2'].map((digit) => `segment-1795299716250-7-0000000${digit}.ndjson`);
    for (const [index, name] of names.entries()) {
      const line = `{"eventId":"${index + 1}","eventType":"T","topic":"t","key":null,"value":"{}"}\nno event\n`;
      writeFileSync(join(directory, name), line);
    }
    const list = createLocalSource({ directory, now: Date.now });
    await list.open(false);
    const reading = list.read(10)[Symbol.asyncIterator]();
    assert.equal((await reading.next()).value.unreadable.length, 1);
    renameSync(join(directory, names[1] as string), join(directory, 'gone'));
    assert.deepEqual(
      (await reading.next()).value.events.map(({ eventId }: { eventId: string }) => eventId),
      ['1'],
    );
  });
});

describe('segments that a recovery does not touch', () => {
  it('what a living process still writes is told, or the recovery would look complete', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { maxFiles: 0 });
    await backup.store(backupEvent('1001'));
    await backup.close(1_000);
    const [name] = namesIn(directory) as [string];
    const living = `${name.replace(/-\d+(-[0-9a-f]{8}\.)/, `-${process.ppid}$1`)}.open`;
    renameSync(join(directory, name), join(directory, living));
    const reason = 'a running process still writes to it: run the command again later';
    assert.deepEqual(await read(directory, true), {
      count: 1,
      events: 0,
      unreadable: [{ place: living, reason, isInUse: true }],
    });
    assert.deepEqual(await read(directory, false), { count: 1, events: 1, unreadable: [] });
  });

  requiring('pipes', 'where there are named pipes', () => {
    it('a link, a folder or a pipe under the name of a segment is not followed', async () => {
      const directory = freshPath();
      const elsewhere = join(freshPath(), 'elsewhere');
      mkdirSync(directory, { mode: 0o700 });
      mkdirSync(join(elsewhere, '..'));
      writeFileSync(elsewhere, '{"eventId":"9","eventType":"T","topic":"t","key":null,"value":"{}"}\n');
      const names = ['1', '2', '3'].map((digit) => `segment-1795299716250-7-0000000${digit}.ndjson`);
      const [link, folder, pipe] = names.map((name) => join(directory, name)) as [string, string, string];
      symlinkSync(elsewhere, link);
      mkdirSync(folder);
      execFileSync('mkfifo', [pipe]);
      for (const forRecovery of [false, true]) {
        assert.deepEqual(await read(directory, forRecovery), {
          count: 0,
          events: 0,
          unreadable: names.map((place) => ({ place, reason: 'it is not a file' })),
        });
      }
    });
  });
});

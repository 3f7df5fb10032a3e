import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import { until } from '../../support/until.ts';
import { backupEvent, backupIn, freshPath, type LocalBackup, namesIn } from './backup-folder.ts';

/** What a look into the folder says. */
function lookInto(directory: string): ReturnType<LocalBackup['state']> {
  const names = namesIn(directory);
  const segments = names.filter((name) => name.startsWith('segment-') && !name.endsWith('.done'));
  const files = names.filter((name) => !name.startsWith('segment-'));
  const lines = segments.reduce(
    (sum, name) => sum + readFileSync(join(directory, name), 'utf8').split('\n').length - 1,
    0,
  );
  const bytes = [...files, ...segments].reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
  return {
    files: files.length + segments.length,
    events: files.length + lines,
    bytes,
    tooLarge: 0,
    problem: null,
  };
}

const storeMany = (backup: LocalBackup, count: number, from = 0): Promise<unknown> =>
  Promise.all(
    Array.from({ length: count }, (_, index) => backup.store(backupEvent(String(1_000_000 + from + index)))),
  );

describe('state of the local backup', () => {
  it('is nothing before anything was stored, and where there is no folder', async () => {
    const backup = backupIn(freshPath());
    await backup.recount();
    assert.deepEqual(backup.state(), { files: 0, events: 0, bytes: 0, tooLarge: 0, problem: null });
  });

  it('counts apart what was set aside, at the next look', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await storeMany(backup, 3);
    const source = createLocalSource({ directory, now: Date.now });
    await source.open(true);
    for await (const { events } of source.read(10)) await source.setAside?.(events.slice(0, 2));
    await source.close();
    await backup.recount();
    const { events, tooLarge } = backup.state();
    assert.deepEqual([events, tooLarge], [1, 2]);
  });

  it('counts files of one event each', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await storeMany(backup, 3);
    assert.deepEqual(backup.state(), lookInto(directory));
    assert.equal(backup.state().events, 3);
  });

  it('counts the events of segments at once, and the same when they have been handed over', async () => {
    const directory = freshPath();
    const backup = backupIn(directory);
    await storeMany(backup, 30);
    assert.deepEqual([backup.state().files, backup.state().events], [1, 30]);
    await backup.finishSegments();
    await storeMany(backup, 30, 100);
    assert.deepEqual([backup.state().files, backup.state().events], [2, 60]);
    await backup.recount();
    assert.deepEqual([backup.state().events, lookInto(directory).files], [60, 2]);
    await backup.close(5_000);
  });

  it('finds what another process left, without what is done of it, and that it is gone', async () => {
    const directory = freshPath();
    const other = backupIn(directory);
    await storeMany(other, 5);
    await storeMany(other, 45, 100);
    await other.close(5_000);
    const backup = backupIn(directory);
    await backup.recount();
    await until(() => backup.state().events > 5);
    const { files, events } = backup.state();
    assert.deepEqual([files, events], [6, 50]);

    const source = createLocalSource({ directory, now: Date.now });
    await source.open(true);
    let left = 50;
    for await (const batch of source.read(5)) {
      await source.done(batch.events);
      left -= batch.events.length;
      await backup.recount();
      await until(() => backup.state().events === left);
    }
    await source.close();
    // The segment itself moves when it has been read to its end.
    await backup.recount();
    assert.deepEqual(backup.state(), { files: 0, events: 0, bytes: 0, tooLarge: 0, problem: null });
    assert.equal(namesIn(join(directory, 'recovered')).length, 6);
  });
});

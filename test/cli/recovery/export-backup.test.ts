import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportBackup } from '../../../src/start/commands/recovery.ts';
import {
  backupEvent,
  backupIn,
  eventsIn,
  namesIn,
  routeOf,
} from '../../adapters/local-backup/backup-folder.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { runSvc } from '../../support/run-svc.ts';

const journal = ['1001', '1002', '1003'].map((id) => backupEvent(id));
const bare = backupEvent('1000', { topic: 'payments', key: null });

describe('svc backup export', function () {
  this.timeout(60_000);
  let cwd: string;
  let folder: string;
  beforeEach(async () => {
    cwd = temporaryFolder('export');
    folder = join(cwd, 'dlq-backup');
    writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ svc: { broker: { topic: 'orders' } } }));
    for (const [options, events] of [
      [{ isJournal: true }, journal],
      [{ format: 'event' }, [bare]],
    ] as const) {
      const backup = backupIn(folder, options);
      await Promise.all(events.map((event) => backup.store(event)));
      await backup.close(1_000);
    }
  });
  const exported = (...args: string[]) => runSvc(['backup', 'export', ...args], { cwd });

  it('copies a journal and files to one file an event, which restores to the same, and leaves the backup', async () => {
    const before = namesIn(folder);
    const all = [bare, ...journal].map(routeOf);
    for (const format of ['event', 'record']) {
      const { code, stdout, stderr } = await exported('--out', format, '--format', format);
      assert.deepEqual([code, stdout], [0, ''], stderr);
      assert.match(stderr, /^4 events in .*$/m);
      const out = join(cwd, format);
      assert.equal(namesIn(out).length, 4);
      assert.equal((statSync(out).mode & 0o777).toString(8), '700');
      const found = (await eventsIn(out)).sort((a, b) => Number(a.eventId) - Number(b.eventId));
      assert.deepEqual(found.map(routeOf), all);
    }
    assert.equal(readFileSync(join(cwd, 'event/1002.json'), 'utf8'), journal[1]?.value.toString());
    assert.deepEqual(namesIn(folder), before);
    assert.equal((await eventsIn(folder)).length, 4);
  });

  it('takes what is asked for, and says so as JSON', async () => {
    const { code, stdout } = await exported('--out', 'paid', '--topic', 'payments', '--json');
    const out = join(cwd, 'paid');
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(stdout), {
      folder: out,
      exported: 1,
      skipped: 3,
      unreadable: [],
      stopped: null,
    });
    assert.deepEqual(namesIn(out), ['1000.json']);
    await exported('--out', 'one', '--file', namesIn(folder)[0] as string);
    assert.equal(namesIn(join(cwd, 'one')).length, 1);
  });

  it('names a line that is no event, and exports the others', async () => {
    const segment = namesIn(folder).find((name) => name.endsWith('.ndjson')) as string;
    appendFileSync(join(folder, segment), 'damaged\n');
    const { code, stderr } = await exported('--out', 'out');
    assert.equal(code, 1);
    assert.match(stderr, /^4 events in .*\nnot exported: segment-.*:4: it holds no event$/m);
    assert.equal(namesIn(join(cwd, 'out')).length, 4);
  });

  it('names an event that is too large for a file, and exports the others', async () => {
    const backup = backupIn(folder, { isJournal: true });
    await backup.store(backupEvent('1004', { headers: { note: 'x'.repeat(1_100_000) } }));
    await backup.close(1_000);
    const { code, stdout } = await exported('--out', 'out', '--json');
    assert.equal(code, 1);
    const { exported: count, unreadable } = JSON.parse(stdout);
    assert.equal(count, 4);
    assert.match(unreadable[0].place, /^segment-.*:1$/);
    assert.match(unreadable[0].reason, /is more than the local backup stores in one piece/);
  });

  it('ends after the batch under way when it is told to, and says that there are more', async () => {
    const many = Array.from({ length: 600 }, (_, index) => backupEvent(String(2_000 + index)));
    const backup = backupIn(folder, { isJournal: true });
    await Promise.all(many.map((event) => backup.store(event)));
    await backup.close(5_000);
    const stopped = (out: string, file?: string) =>
      exportBackup({
        ...{ directory: folder, file, out: join(cwd, out), format: 'event', accept: () => true },
        isStopped: () => true,
        onProgress() {},
      });
    const { exported: count, isInterrupted } = await stopped('some');
    assert.ok(count > 0 && count < 604, `${count}`);
    assert.deepEqual([isInterrupted, namesIn(join(cwd, 'some')).length], [true, count]);
    assert.equal((await stopped('all', '1000.json')).isInterrupted, false);
  });

  it('takes no folder that holds something, and none that others can enter', async () => {
    mkdirSync(join(cwd, 'full'), { mode: 0o700 });
    writeFileSync(join(cwd, 'full/x'), '');
    mkdirSync(join(cwd, 'open'), { mode: 0o755 });
    for (const [out, says] of [
      ['full', /the folder ".*full" is not empty: choose an empty or new one/],
      ['open', /other users have access to it/],
    ] as const) {
      const { code, stderr } = await exported('--out', out);
      assert.equal(code, 1);
      assert.match(stderr, says);
      assert.deepEqual(readdirSync(join(cwd, out)), out === 'full' ? ['x'] : []);
    }
  });

  it('is used wrongly without a folder, and with a form that there is not', async () => {
    for (const args of [[], ['--out', 'out', '--format', 'journal']])
      assert.equal((await exported(...args)).code, 2, args.join());
  });
});

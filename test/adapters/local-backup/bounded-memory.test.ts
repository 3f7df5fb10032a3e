import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { closeSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { backupEvent, backupIn, freshPath, namesIn } from './backup-folder.ts';

const maxEventBytes = 128 * 1024 ** 2;

const mebibyte = 1024 * 1024;

interface Measured {
  readonly ids: string[];
  readonly unreadable: string[];
  readonly grownBytes: number;
  readonly tookMs: number;
}

/** In a process of its own, whose memory is measured. */
async function restored(directory: string): Promise<Measured> {
  const script = join(import.meta.dirname, 'fixtures', 'restore.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [script, directory], { timeout: 60_000 });
  return JSON.parse(stdout);
}

async function withOne(id: string, maxFiles: number): Promise<string> {
  const directory = freshPath();
  const backup = backupIn(directory, { maxFiles });
  await backup.store(backupEvent(id));
  await backup.close(1_000);
  return directory;
}

function sparse(directory: string, name: string, bytes: number): void {
  writeFileSync(join(directory, name), '');
  truncateSync(join(directory, name), bytes);
}

describe('memory that a backup folder can cost', function () {
  this.timeout(90_000);

  it('four empty files of 400 MB cost nothing, and the event beside them is sent', async () => {
    const directory = await withOne('1001', 10);
    const names = ['1', '2', '3', '4'].map((id) => `${id}.json`);
    for (const name of names) sparse(directory, name, 400_000_000);
    const { ids, unreadable, grownBytes } = await restored(directory);
    assert.deepEqual(ids, ['1001']);
    const reason = `it is larger than ${maxEventBytes} bytes, so svc did not write it`;
    assert.deepEqual(
      unreadable,
      names.map((name) => `${name}: ${reason}`),
    );
    // Read as a whole, one of them alone would take 400 MB.
    assert.ok(grownBytes < 200 * mebibyte, `${grownBytes}`);
  });

  it('files as large as an event may be are read one by one', async () => {
    const directory = await withOne('1001', 10);
    for (let id = 1; id <= 3; id++) sparse(directory, `${id}.json`, maxEventBytes);
    const { ids, unreadable, grownBytes } = await restored(directory);
    assert.deepEqual(ids, ['1001']);
    assert.deepEqual(unreadable[0], '1.json: it holds no event');
    assert.equal(unreadable.length, 3);
    // The bytes, their text, and what of the one before is not collected yet.
    assert.ok(grownBytes < 800 * mebibyte, `${grownBytes}`);
  });

  it('a line of 540 MB is passed over: those before and behind it are sent', async () => {
    const directory = await withOne('1002', 0);
    const segment = namesIn(directory)[0] as string;
    const file = openSync(join(directory, segment), 'w');
    const text = (id: string): string =>
      `{"eventId":"${id}","eventType":"T","topic":"t","key":null,"value":"{}"}\n`;
    writeSync(file, text('1'));
    writeSync(file, `\n${text('3')}`, 540_000_000);
    closeSync(file);
    const { ids, unreadable, grownBytes, tookMs } = await restored(directory);
    assert.deepEqual(ids, ['1', '3']);
    assert.deepEqual(unreadable, [`${segment}:2: the line is longer than any event`]);
    assert.ok(grownBytes < 400 * mebibyte, `${grownBytes}`);
    assert.ok(tookMs < 30_000, `${tookMs}`);
    assert.ok(namesIn(directory).includes(segment), 'it stays');
  });

  it('12 MB of brackets cost little, in a note of what is done and in an event', async () => {
    const directory = await withOne('1001', 0);
    const segment = namesIn(directory)[0] as string;
    writeFileSync(join(directory, `${segment}.done`), '['.repeat(12_000_000));
    writeFileSync(join(directory, '5.json'), '['.repeat(12_000_000));
    const { ids, grownBytes } = await restored(directory);
    assert.deepEqual(ids, ['1001']);
    assert.ok(grownBytes < 150 * mebibyte, `${grownBytes}`);
  });
});

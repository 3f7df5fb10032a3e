import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { requiring } from '../../support/requires.ts';
import { eventsIn, freshPath } from './backup-folder.ts';

const fixture = resolve(import.meta.dirname, 'fixtures/fill.ts');

interface Filled {
  readonly stored: string[];
  readonly errors: string[];
}

function fill(before: string, directory: string, maxFiles: number): Filled {
  const script = `${before}; exec "$0" "$@"`;
  const args = ['-c', script, process.execPath, fixture, directory, String(maxFiles)];
  return JSON.parse(execFileSync('bash', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }));
}

/** All that was said to be stored is there, whole; nothing else is, and no rests of what failed. */
async function isSound(directory: string, { stored }: Filled): Promise<void> {
  assert.ok(stored.length > 0, 'nothing was stored: the test shows nothing');
  assert.ok(stored.length < 120, 'all was stored: the test shows nothing');
  const found = (await eventsIn(directory)).map(({ headers }) => headers.eventId as string);
  assert.deepEqual(found.sort(), [...stored].sort());
  assert.deepEqual(
    readdirSync(directory).filter((name) => name.endsWith('.tmp')),
    [],
  );
}

describe('local backup on a full disk', function () {
  this.timeout(60_000);

  it('a segment that cannot grow holds whole lines, and all that was said to be stored', async () => {
    const directory = freshPath();
    // Kilobytes that a file may have: four batches of 20 events, and then some.
    const filled = fill('ulimit -f 300', directory, 0);
    assert.deepEqual(filled.errors, ['the backup folder "<folder>" cannot be written: EFBIG']);
    await isSound(directory, filled);
  });
});

requiring('mounts', 'local backup on a file system without space', function () {
  this.timeout(60_000);

  for (const [what, maxFiles] of [
    ['files', 10_000],
    ['segments', 0],
  ] as const) {
    it(`without space, ${what}: an error each, and what was stored is intact`, async () => {
      // A file system of 256 KB, in a mount of its own, which ends with its process: looked at from inside.
      const root = freshPath();
      mkdirSync(root, { recursive: true });
      const check = `import('${resolve(import.meta.dirname, 'backup-folder.ts')}').then(async ({ eventsIn }) => {
        const { readdirSync } = await import('node:fs');
        const found = (await eventsIn('${root}/b')).map(({ headers }) => headers.eventId);
        console.log(JSON.stringify({ found, names: readdirSync('${root}/b') }));
      })`;
      const script = [
        `mount -t tmpfs -o size=256k,mode=755 svc-test '${root}'`,
        `"$0" '${fixture}' '${root}/b' ${maxFiles}; echo`,
        `"$0" -e "${check}"`,
      ].join(' && ');
      const lines = execFileSync(
        'unshare',
        ['--mount', '--map-root-user', 'bash', '-c', script, process.execPath],
        {
          encoding: 'utf8',
        },
      );
      const [filled, after] = lines
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.deepEqual(filled.errors, [
        'the backup folder "<folder>" cannot be written: ENOSPC: the disk is full',
      ]);
      assert.ok(filled.stored.length > 0 && filled.stored.length < 120, String(filled.stored.length));
      assert.deepEqual(after.found.sort(), filled.stored.sort());
      assert.deepEqual(
        after.names.filter((name: string) => name.endsWith('.tmp')),
        [],
      );
    });
  }

  it('without space, a journal: what came behind an event that does not fit is refused with it, later ones are stored, and nothing is left of what was refused', () => {
    const root = freshPath();
    mkdirSync(root, { recursive: true });
    const check = `import('${resolve(import.meta.dirname, 'backup-folder.ts')}').then(async ({ backupEvent, backupIn }) => {
      const backup = backupIn('${root}/b', { isJournal: true });
      const store = (id, bytes) => backup.store(backupEvent(id, { value: Buffer.alloc(bytes, '1') }))
        .then(() => id + ' stored', () => id + ' refused');
      const batch = [store('1', 200_000), store('2', 200_000)];
      await new Promise(setImmediate);
      const results = await Promise.all([...batch, store('3', 10)]);
      for (let n = 0; n < 20; n++) await store('x', 300_000);
      const { readdirSync } = await import('node:fs');
      const empty = readdirSync('${root}/b').filter((name) => name.startsWith('segment-')).length;
      console.log(JSON.stringify([...results, await store('4', 10), empty]));
      await backup.close(1_000);
    })`;
    const script = `mount -t tmpfs -o size=256k,mode=755 svc-test '${root}' && "$0" -e "${check}"`;
    const command = ['--mount', '--map-root-user', 'bash', '-c', script, process.execPath];
    const results = execFileSync('unshare', command, { encoding: 'utf8' });
    assert.deepEqual(JSON.parse(results), ['1 refused', '2 refused', '3 refused', '4 stored', 0]);
  });
});

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { requiring } from '../../support/requires.ts';

/** The user of the container, without an entry in /etc/passwd, and the fsGroup of its pod. */
const [user, group] = [12_345, 2_000];
const stranger = 23_456;

/** One place that a container gets for the backup. `docs/internals/platforms.md` has the same rows (tested). */
interface Place {
  readonly name: string;
  /** Makes it below an empty folder of root's, as the platform does; gives the path for `svc.broker.dlq-backup-path`. */
  readonly make: (root: string) => string;
  /** Default: a user without an entry in /etc/passwd. */
  readonly as?: number;
  /** Default: the event is stored. */
  readonly refused?: RegExp;
}

function folder(path: string, mode: number, [uid, gid]: readonly [number, number]): string {
  mkdirSync(path);
  chownSync(path, uid, gid);
  chmodSync(path, mode);
  return path;
}

const places: readonly Place[] = [
  { name: 'emptyDir, the mount itself', make: (root) => folder(join(root, 'mount'), 0o777, [0, 0]) },
  {
    name: 'emptyDir, the mount itself, with root as the user',
    make: (root) => folder(join(root, 'mount'), 0o777, [0, 0]),
    as: 0,
  },
  {
    name: 'emptyDir, a subfolder',
    make: (root) => join(folder(join(root, 'mount'), 0o777, [0, 0]), 'dlq-backup'),
  },
  {
    name: 'emptyDir with `fsGroup`, the mount itself',
    make: (root) => folder(join(root, 'mount'), 0o2777, [0, group]),
  },
  {
    name: 'PersistentVolumeClaim with `fsGroup`, the mount itself',
    make: (root) => folder(join(root, 'mount'), 0o2775, [0, group]),
  },
  {
    name: 'PersistentVolumeClaim with `fsGroup`, a subfolder',
    make: (root) => join(folder(join(root, 'mount'), 0o2775, [0, group]), 'dlq-backup'),
  },
  {
    name: 'hostPath with mode 0755 that belongs to the user',
    make: (root) => folder(join(root, 'mount'), 0o755, [user, user]),
  },
  { name: '`docker run --tmpfs`, mode 1777', make: (root) => folder(join(root, 'mount'), 0o1777, [0, 0]) },
  {
    name: 'OpenShift: a folder of the image, group 0 with mode 0775',
    make: (root) => join(folder(join(root, 'app'), 0o775, [0, 0]), 'dlq-backup'),
  },
  {
    name: 'hostPath with mode 0755 that belongs to root',
    make: (root) => folder(join(root, 'mount'), 0o755, [0, 0]),
    refused: /belongs to root, and this user \(id 12345\) cannot write to it\. .*fsGroup in Kubernetes/,
  },
  {
    name: 'a subfolder of a hostPath with mode 0755 that belongs to root',
    make: (root) => join(folder(join(root, 'mount'), 0o755, [0, 0]), 'dlq-backup'),
    refused: /cannot be created \(EACCES\)/,
  },
  {
    name: 'a folder of another user, whatever its mode',
    make: (root) => folder(join(root, 'mount'), 0o777, [stranger, stranger]),
    refused: /belongs to another user \(id 23456\)/,
  },
  {
    name: 'a subfolder of a folder that another user opened to everybody',
    make: (root) => join(folder(join(root, 'mount'), 0o777, [stranger, stranger]), 'dlq-backup'),
    refused: /every user may rename entries of/,
  },
];

/** What the kubelet does to a volume at each start of a pod with `fsGroup`. */
function mountAgain(path: string): void {
  execFileSync('chgrp', ['-R', String(group), path]);
  execFileSync('find', [path, '-type', 'd', '-exec', 'chmod', 'g+rwxs', '{}', '+']);
  execFileSync('find', [path, '-type', 'f', '-exec', 'chmod', 'g+rw', '{}', '+']);
}

requiring('superuser', 'places that containers give for the backup', function () {
  this.timeout(60_000);
  const root = mkdtempSync(join(tmpdir(), 'svc-volumes-'));
  const program = join(root, 'store.mjs');
  let count = 0;

  before(async () => {
    chmodSync(root, 0o755);
    const source = new URL('../../../src/adapters/local-backup/', import.meta.url).pathname;
    await build({
      stdin: {
        resolveDir: source,
        contents: `
          import { useLogger } from '../../observe/logger.ts';
          import { localBackup } from './local-backup.ts';
          import { createLocalSource } from './local-source.ts';
          const lines = [];
          const say = (line) => void lines.push(line);
          useLogger({ debug() {}, info: say, warn: say, error: say });
          const [directory, eventId] = process.argv.slice(2);
          const backup = localBackup.open({ directory, format: 'journal', maxFiles: 100, maxBytes: 1e6 });
          const event = { eventId, eventType: 'T', topic: 't', key: 'k', headers: {}, value: Buffer.from('{}'), reason: 'ECONNREFUSED', backedUpAt: 1 };
          const stored = await backup.store(event).then(() => 'stored', ({ message }) => message);
          const { problem } = backup.state();
          await backup.close(1000);
          const source = createLocalSource({ directory, now: Date.now });
          const read = [];
          try {
            await source.open(false);
            for await (const { events } of source.read(100)) read.push(...events.map((each) => each.eventId));
          } catch {}
          console.log(JSON.stringify({ stored, problem, read, lines }));`,
      },
      ...{ bundle: true, platform: 'node', format: 'esm', outfile: program, logLevel: 'silent' },
    });
  });
  after(() => rmSync(root, { recursive: true, force: true }));

  async function store(directory: string, eventId: string, as: number): Promise<Stored> {
    // The groups of a container's process: with OpenShift group 0, with Kubernetes the fsGroup.
    const command = [`--reuid=${as}`, `--regid=${as}`, `--groups=0,${group}`, process.execPath, program];
    const env = { PATH: process.env.PATH };
    const { stdout } = await promisify(execFile)('setpriv', [...command, directory, eventId], {
      cwd: root,
      env,
    });
    return JSON.parse(stdout) as Stored;
  }

  for (const { name, make, as = user, refused } of places) {
    it(`${name}: ${refused === undefined ? 'stores, at the second start too' : 'is refused with the reason'}`, async () => {
      const own = folder(join(root, String(++count)), 0o755, [0, 0]);
      const directory = make(own);
      const first = await store(directory, '1', as);
      if (refused !== undefined) {
        assert.match(first.stored, refused);
        assert.equal(first.problem, first.stored);
        return;
      }
      assert.deepEqual([first.stored, first.problem, first.read], ['stored', null, ['1']]);
      mountAgain(own);
      const second = await store(directory, '2', as);
      assert.deepEqual([second.stored, second.read], ['stored', ['1', '2']]);
      assert.equal(second.lines.filter((line) => /had mode \d+/.test(line)).length, 1);
      const events = readdirSync(own, { recursive: true, encoding: 'utf8' }).filter((each) =>
        /segment-/.test(each),
      );
      assert.equal(events.length, 2);
      for (const each of events) assert.equal(statSync(join(own, each)).mode & 0o777, 0o600, each);
    });
  }
});

describe('docs/internals/platforms.md', () => {
  it('has a row for each place, with what happens there', () => {
    const page = readFileSync(new URL('../../../docs/internals/platforms.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| (.+) \| (used|refused).* \|$/gm)].map(([, name, what]) => [
      name,
      what,
    ]);
    const expected = places.map(({ name, refused }) => [name, refused === undefined ? 'used' : 'refused']);
    assert.deepEqual(rows.sort(), expected.sort());
  });
});

interface Stored {
  readonly stored: string;
  readonly problem: string | null;
  readonly read: readonly string[];
  readonly lines: readonly string[];
}

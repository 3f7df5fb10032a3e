import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type ProcessEntry, readProcessFiles, writeProcessFile } from '../../../src/ground/files.ts';
import { temporaryFolder } from '../../support/folders.ts';

const isPosix = process.platform !== 'win32';

describe('process file', () => {
  let parent: string;
  let folder: string;
  const entry: ProcessEntry = {
    ...{ pid: process.pid, port: 17820, address: '127.0.0.1', tls: false, name: 'orders', version: '0.1.0' },
    cwd: '/srv/orders',
  };
  const pathOf = (pid: number): string => join(folder, `${pid}.json`);
  const gone = (): number => spawnSync(process.execPath, ['-e', '']).pid;
  const isRefused = { code: 'SVC_GROUND_PROCESS_FILE' };

  beforeEach(() => {
    parent = temporaryFolder('process-file');
    folder = join(parent, 'svc-1000');
  });

  it('is in a folder for each user, among the temporary files', () => {
    const name = isPosix ? 'TMPDIR' : 'TEMP';
    const before = process.env[name];
    process.env[name] = parent;
    try {
      writeProcessFile(entry);
      assert.deepEqual(readProcessFiles(), [entry]);
    } finally {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    }
    const [made = '', ...others] = readdirSync(parent);
    assert.match(made, isPosix ? /^svc-\d+$/ : /^svc-.+$/);
    assert.deepEqual(others, []);
    assert.deepEqual(readdirSync(join(parent, made)), [`${process.pid}.json`]);
  });

  it('is what others find, for its user only, and is gone at the end', () => {
    const remove = writeProcessFile(entry, folder);
    assert.deepEqual(readProcessFiles(folder), [entry]);
    if (isPosix) {
      assert.equal(statSync(folder).mode & 0o777, 0o700);
      assert.equal(statSync(pathOf(process.pid)).mode & 0o777, 0o600);
    }
    remove();
    assert.deepEqual(readProcessFiles(folder), []);
    remove();
  });

  it('is written anew by a second start, which the end of the first does not take away', () => {
    const first = writeProcessFile(entry, folder);
    writeProcessFile({ ...entry, port: 17821 }, folder);
    first();
    assert.deepEqual(readProcessFiles(folder), [{ ...entry, port: 17821 }]);
  });

  it('of a process that is gone is removed by whoever reads, and by whoever writes', () => {
    const [one, other] = [gone(), gone()];
    writeProcessFile({ ...entry, pid: one }, folder);
    assert.deepEqual(readProcessFiles(folder), []);
    assert.ok(!existsSync(pathOf(one)));
    writeProcessFile({ ...entry, pid: other }, folder);
    writeProcessFile(entry, folder);
    assert.ok(!existsSync(pathOf(other)));
  });

  it('that is none, or no file, is passed over', () => {
    writeProcessFile(entry, folder);
    for (const text of ['', '[]', 'null', '{"pid":1}', '{"pid":"1","port":1,"address":"a"}']) {
      writeFileSync(pathOf(process.ppid), text);
      assert.deepEqual(readProcessFiles(folder), [entry], text);
    }
    rmSync(pathOf(process.ppid));
    mkdirSync(pathOf(process.ppid));
    writeFileSync(join(folder, '__proto__.json'), '{}');
    assert.deepEqual(readProcessFiles(folder), [entry]);
  });

  it('is nowhere where there is no folder', () => assert.deepEqual(readProcessFiles(folder), []));

  if (isPosix) {
    const secret = (): string => join(parent, 'other.txt');
    const refusals: Record<string, () => void> = {
      'is a link': () => {
        mkdirSync(join(parent, 'elsewhere'), { mode: 0o700 });
        symlinkSync(join(parent, 'elsewhere'), folder);
      },
      'is a file': () => writeFileSync(folder, ''),
      'is open to others': () => {
        mkdirSync(folder);
        chmodSync(folder, 0o701);
      },
    };
    for (const [what, make] of Object.entries(refusals)) {
      it(`is neither written nor read where the folder ${what}`, () => {
        make();
        assert.throws(() => writeProcessFile(entry, folder), isRefused);
        assert.throws(() => readProcessFiles(folder), isRefused);
      });
    }

    it('is neither written nor read in a folder of another user', () => {
      // /proc/1 belongs to root, and /usr to whoever installed the machine: one of them is not ours, unless we are root.
      const foreign = process.getuid?.() === 0 ? undefined : '/usr';
      if (foreign === undefined) {
        mkdirSync(folder, { mode: 0o700 });
        assert.equal(spawnSync('chown', ['65534', folder]).status, 0);
      }
      assert.throws(() => writeProcessFile(entry, foreign ?? folder), {
        ...isRefused,
        message: /belongs to another user/,
      });
      assert.throws(() => readProcessFiles(foreign ?? folder), isRefused);
    });

    it('never writes through a link that stands in its place', () => {
      mkdirSync(folder, { mode: 0o700 });
      writeFileSync(secret(), 'kept');
      for (const path of [pathOf(process.pid), `${pathOf(process.pid)}.tmp`]) symlinkSync(secret(), path);
      writeProcessFile(entry, folder);
      assert.equal(readFileSync(secret(), 'utf8'), 'kept');
      assert.deepEqual(readProcessFiles(folder), [entry]);
    });

    it('cannot be written where the folder cannot be made', () =>
      assert.throws(() => writeProcessFile(entry, '/proc/svc-none'), isRefused));
  }
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../../../src/ground/files.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { requiring } from '../../support/requires.ts';

describe('makeFolders', () => {
  const folder = temporaryFolder('folders');

  it('makes a folder and those above it, and says whether it did', () => {
    const path = join(folder, 'a/b/c');
    assert.equal(makeFolders(path), true);
    assert.equal(makeFolders(path), false);
    assert.ok(statSync(path).isDirectory());
  });

  it('throws where a file is in the way', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    assert.throws(() => makeFolders(file), { code: 'EEXIST' });
    assert.throws(() => makeFolders(join(file, 'below')), { code: 'ENOTDIR' });
  });

  requiring('proc', 'in a place in which no folder can be made', () => {
    it('does not keep the application waiting for ever, as the recursive mkdir of Node does', () => {
      // In a process of its own, or a failure would be one of the whole run.
      const url = new URL('../../../src/ground/files.ts', import.meta.url).href;
      const code = `import(${JSON.stringify(url)}).then((m) => m.makeFolders('/proc/svc/backup')).catch((e) => console.log(e.code))`;
      const { stdout } = spawnSync(process.execPath, [...process.execArgv, '-e', code], { timeout: 10_000 });
      assert.equal(String(stdout), 'ENOENT\n');
    });
  });
});

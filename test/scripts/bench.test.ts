import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../support/folders.ts';
import { runProgram } from '../support/run-svc.ts';

describe('npm run bench', function () {
  this.timeout(30_000);

  it('says what to do in a clone that was not built', async () => {
    const clone = temporaryFolder('clone');
    for (const folder of ['scripts', 'test/bench']) mkdirSync(join(clone, folder), { recursive: true });
    writeFileSync(join(clone, 'package.json'), '{"type":"module"}');
    copyFileSync(resolve(import.meta.dirname, '../../scripts/bench.ts'), join(clone, 'scripts/bench.ts'));
    writeFileSync(join(clone, 'test/bench/startup.ts'), "throw new Error('it was run');");
    const { code, stdout, stderr } = await runProgram(process.execPath, ['scripts/bench.ts', 'startup'], {
      cwd: clone,
    });
    assert.deepEqual([code, stdout, stderr], [1, '', 'nothing is built: npm run build first\n']);
  });
});

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Instance } from '../../scripts/services/instances.ts';
import { isAlive } from '../../scripts/services/processes.ts';
import { requiring } from './requires.ts';

requiring(['own-kms', 'own-vault'], 'a test run that is killed', () => {
  it('leaves no KMS, no Vault and no data behind', async function () {
    this.timeout(60_000);
    const fixture = join(import.meta.dirname, 'fixtures', 'start-servers.ts');
    const run = spawn(process.execPath, [fixture], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output] = (await once(run.stdout, 'data')) as [Buffer];
    const instances = JSON.parse(output.toString()) as Instance[];
    const left = () => instances.filter(({ pid, folder }) => isAlive(pid as number) || existsSync(folder));
    assert.deepEqual(
      left().map(({ name }) => name),
      ['kms', 'vault'],
    );
    run.kill('SIGKILL');
    for (let tries = 0; tries < 100 && left().length > 0; tries++) await sleep(50);
    assert.deepEqual(left(), []);
  });
});

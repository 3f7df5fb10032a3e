import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Instance, pidsOf } from '../../scripts/services/instances.ts';
import { isAlive } from '../../scripts/services/processes.ts';
import { requiring } from './requires.ts';

const cases = [
  { needs: ['own-kms', 'own-vault'], fixture: 'start-servers.ts', names: ['kms', 'vault'] },
  {
    needs: ['secure-kafka', 'own-s3'],
    fixture: 'start-cluster.ts',
    names: ['kafka3', 'kafka-secure', 's3'],
  },
] as const;

for (const { needs, fixture, names } of cases) {
  requiring(needs, `a test run that is killed with ${names.join(', ')}`, () => {
    it('leaves no server and no data behind', async function () {
      this.timeout(60_000);
      const file = join(import.meta.dirname, 'fixtures', fixture);
      const run = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [output] = (await once(run.stdout, 'data')) as [Buffer];
      const instances = JSON.parse(output.toString()) as Instance[];
      const left = () => instances.filter((each) => pidsOf(each).some(isAlive) || existsSync(each.folder));
      assert.deepEqual(
        left().map(({ name }) => name),
        names,
      );
      assert.ok(instances.flatMap(pidsOf).every(isAlive));
      run.kill('SIGKILL');
      for (let tries = 0; tries < 100 && left().length > 0; tries++) await sleep(50);
      assert.deepEqual(left(), []);
    });
  });
}

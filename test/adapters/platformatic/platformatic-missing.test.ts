import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

describe('platformatic without its package', () => {
  it('names the package to install', () => {
    const fixture = join(import.meta.dirname, 'fixtures', 'without-package.ts');
    const { stdout, stderr } = spawnSync(process.execPath, [fixture], {
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    assert.deepEqual(stdout === '' ? stderr : JSON.parse(stdout), {
      ok: false,
      failure: {
        kind: 'fatal',
        cause: 'SVC_ADAPTERS_PACKAGE_MISSING',
        message:
          'svc.broker.client: platformatic needs the package @platformatic/kafka, which is not installed: npm install @platformatic/kafka',
      },
    });
  });
});

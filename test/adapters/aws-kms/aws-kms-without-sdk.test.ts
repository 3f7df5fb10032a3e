import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

describe('aws-kms without its package', () => {
  it('names the package to install', () => {
    const fixture = join(import.meta.dirname, 'fixtures', 'without-sdk.ts');
    const { stdout, stderr } = spawnSync(process.execPath, [fixture], {
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    assert.deepEqual(stdout === '' ? stderr : JSON.parse(stdout), {
      name: 'KeyProviderException',
      code: 'SVC_PROTECT_KEY_REFUSED',
      message:
        'AWS KMS needs the package @aws-sdk/client-kms, which is not installed: npm install @aws-sdk/client-kms',
    });
  });
});

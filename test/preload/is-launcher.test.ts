import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isLauncher } from '../../src/preload/is-launcher.ts';

describe('isLauncher', () => {
  it('knows the tools that only start other processes', () => {
    for (const entry of [
      '/usr/lib/node_modules/npm/bin/npm-cli.js',
      'C:\\Program Files\\nodejs\\node_modules\\npm\\bin\\npx-cli.js',
      '/home/ann/.cache/node/corepack/v1/pnpm/10.1.0/bin/pnpm.cjs',
      '/home/ann/app/.yarn/releases/yarn-4.6.0.cjs',
      '/home/ann/app/node_modules/tsx/dist/cli.mjs',
      '/home/ann/app/node_modules/nodemon/bin/nodemon.js',
    ]) {
      assert.equal(isLauncher(entry), true, entry);
    }
  });

  it('takes everything else for an application', () => {
    for (const entry of [
      undefined,
      '/home/ann/app/src/server.ts',
      '/home/ann/npm/server.js',
      '/home/ann/app/npm-statistics.js',
      '/home/ann/app/.yarn/cache/x.js',
      '/home/ann/app/npm/index.js',
      '/home/ann/yarn-shop/server.mjs',
      '/home/ann/app/node_modules/ts-node/dist/bin.js',
      '/home/ann/app/node_modules/pm2/lib/ProcessContainerFork.js',
      '/home/ann/app/node_modules/mocha/bin/mocha.js',
    ]) {
      assert.equal(isLauncher(entry), false, entry);
    }
  });

  it('follows the link that a command is', () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-launcher-'));
    try {
      mkdirSync(join(folder, 'node_modules/npm/bin'), { recursive: true });
      writeFileSync(join(folder, 'node_modules/npm/bin/npm-cli.js'), '');
      symlinkSync(join(folder, 'node_modules/npm/bin/npm-cli.js'), join(folder, 'npm'));
      assert.equal(isLauncher(join(folder, 'npm')), true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

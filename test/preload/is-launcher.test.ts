import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isLauncher } from '../../src/preload/preload.ts';
import { temporaryFolder } from '../support/folders.ts';

describe('isLauncher', () => {
  it('knows the tools that only start other processes', () => {
    for (const entry of [
      '/usr/lib/node_modules/npm/bin/npm-cli.js',
      'C:\\nodejs\\node_modules\\npm\\bin\\npx-cli.js',
      '/home/ann/.cache/node/corepack/v1/pnpm/10.1.0/bin/pnpm.cjs',
      '/home/ann/app/.yarn/releases/yarn-4.6.0.cjs',
      '/home/ann/app/node_modules/tsx/dist/cli.mjs',
      '/home/ann/app/node_modules/nodemon/bin/nodemon.js',
      '/home/ann/app/node_modules/@nestjs/cli/bin/nest.js start --watch',
      '/home/ann/app/node_modules/next/dist/bin/next',
      '/home/ann/app/node_modules/next/dist/bin/next dev',
      '/home/ann/app/node_modules/next/dist/bin/next --inspect ./start',
      '/home/ann/app/node_modules/next/dist/bin/next build',
      '/home/ann/app/node_modules/.pnpm/next@16.4.6/node_modules/next/dist/compiled/jest-worker/processChild.js',
      '/home/ann/app/.next/dev/build/chunks/pool_entry-[turbopack-node]_transforms_postcss_ts_0tp-k2vy8nj6i._.js 39671',
      '/home/ann/app/node_modules/typescript/bin/tsc --noEmit',
      '/home/ann/app/node_modules/pm2/bin/pm2-runtime start ecosystem.config.cjs',
      '/home/ann/app/node_modules/pm2/lib/Daemon.js',
      '/home/ann/app/node_modules/vite/bin/vite.js build --ssr src/server.ts',
    ]) {
      assert.equal(isLauncher(['node', ...entry.split(' ')]), true, entry);
    }
  });

  it('takes everything else for an application', () => {
    assert.equal(isLauncher(['node']), false);
    for (const entry of [
      '/home/ann/app/src/server.ts',
      '/home/ann/npm/server.js',
      '/home/ann/app/npm-statistics.js',
      '/home/ann/app/.yarn/cache/x.js',
      '/home/ann/app/npm/index.js',
      '/home/ann/yarn-shop/server.mjs',
      '/home/ann/app/node_modules/ts-node/dist/bin.js',
      '/home/ann/app/node_modules/pm2/lib/ProcessContainerFork.js',
      '/home/ann/app/node_modules/pm2/lib/ProcessContainer.js',
      '/home/ann/app/node_modules/next/dist/bin/next start',
      '/home/ann/app/node_modules/next/dist/bin/next --inspect start -p 3000',
      '/home/ann/app/node_modules/next/dist/server/lib/start-server.js',
      '/home/ann/app/node_modules/vite/bin/vite.js --port 4000',
      '/home/ann/app/node_modules/vite/bin/vite.js preview',
      '/home/ann/app/node_modules/mocha/bin/mocha.js',
    ]) {
      assert.equal(isLauncher(['node', ...entry.split(' ')]), false, entry);
    }
  });

  it('follows the link that a command is', () => {
    const folder = temporaryFolder('launcher');
    mkdirSync(join(folder, 'node_modules/npm/bin'), { recursive: true });
    writeFileSync(join(folder, 'node_modules/npm/bin/npm-cli.js'), '');
    symlinkSync(join(folder, 'node_modules/npm/bin/npm-cli.js'), join(folder, 'npm'));
    assert.equal(isLauncher(['node', join(folder, 'npm')]), true);
  });
});

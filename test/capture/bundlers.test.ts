import assert from 'node:assert/strict';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { neededPackages } from '../../src/capture/bundlers.ts';
import { withSvc } from '../../src/next.ts';
import { followedSpecifiers } from '../../src/start/drivers.ts';
import { temporaryFolder } from '../support/folders.ts';

const followed = followedSpecifiers();

describe('what Next.js has to know of an application with svc', () => {
  let root: string;
  let app: string;
  const cwd = process.cwd();

  const write = (path: string, content: string | object) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), typeof content === 'string' ? content : JSON.stringify(content));
  };
  const link = (path: string, to: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    symlinkSync(join(root, to), join(root, path));
  };

  // As pnpm lays out a workspace: packages at its root, links where they are needed.
  beforeEach(() => {
    root = temporaryFolder('needed');
    app = join(root, 'apps/web');
    const store = 'node_modules/.pnpm';
    const dependencies = { kafka: '1' };
    const peerDependencies = { pg: '8', 'not-there': '1' };
    write(`${store}/svc@1/node_modules/svc/package.json`, { name: 'svc', dependencies, peerDependencies });
    // Each depends on the other.
    write(`${store}/kafka@1/node_modules/kafka/package.json`, { name: 'kafka', dependencies: { svc: '1' } });
    write(`${store}/pg@8/node_modules/pg/package.json`, { name: 'pg' });
    write(`${store}/next@16/node_modules/next/package.json`, { name: 'next' });
    link(`${store}/svc@1/node_modules/kafka`, `${store}/kafka@1/node_modules/kafka`);
    link(`${store}/svc@1/node_modules/pg`, `${store}/pg@8/node_modules/pg`);
    link(`${store}/kafka@1/node_modules/svc`, `${store}/svc@1/node_modules/svc`);
    link('apps/web/node_modules/svc', `${store}/svc@1/node_modules/svc`);
    link('apps/web/node_modules/next', `${store}/next@16/node_modules/next`);
    write(
      'apps/web/svc.config.json',
      `{ "svc": { "broker": { "topic": "t" }, "targets": [
         { "module": "@acme/orders/place", "function": "place", "eventType": "PLACED" },
         { "module": "./lib/orders.ts", "function": "place", "eventType": "PLACED" },
         { "module": "node:fs", "function": "readFile", "eventType": "READ" }] } }`,
    );
    process.chdir(app);
  });
  afterEach(() => {
    process.chdir(cwd);
  });

  it('is svc with all that it loads, links and what they lead to, and its configuration', () => {
    const { folders, files } = neededPackages(app, followed);
    const places = folders.map((folder) => folder.slice(root.length + 1));
    assert.deepEqual(places, [
      'apps/web/node_modules/svc',
      'node_modules/.pnpm/svc@1/node_modules/svc',
      'node_modules/.pnpm/svc@1/node_modules/kafka',
      'node_modules/.pnpm/kafka@1/node_modules/kafka',
      'node_modules/.pnpm/kafka@1/node_modules/svc',
      'node_modules/.pnpm/svc@1/node_modules/pg',
      'node_modules/.pnpm/pg@8/node_modules/pg',
    ]);
    assert.deepEqual(files, [join(app, 'svc.config.json')]);
  });

  it('is what svc has to see, without the files and modules that are no packages', () => {
    const { unbundled } = neededPackages(app, followed);
    for (const name of ['svc', 'pg', 'mysql2', 'drizzle-orm', 'typeorm', '@acme/orders'])
      assert.ok(unbundled.includes(name), name);
    const others = unbundled.filter((name) => !/^(?:@[\w-]+\/)?[\w-]+$/.test(name) || name === 'fs');
    assert.deepEqual(others, []);
  });

  it('is nothing beyond the root that Next.js was given', () => {
    const { folders, files } = neededPackages(app, followed, app);
    assert.deepEqual(folders, [join(app, 'node_modules/svc')]);
    assert.equal(files.length, 1);
  });

  it('is the same where svc is switched off for the build', () => {
    process.env.SVC_ENABLED = 'false';
    try {
      const { unbundled, files } = neededPackages(app, followed);
      assert.ok(unbundled.includes('@acme/orders'));
      assert.equal(files.length, 1);
    } finally {
      delete process.env.SVC_ENABLED;
    }
  });

  it('is added to what the application has', () => {
    const own = {
      output: 'standalone',
      serverExternalPackages: ['sharp', 'pg'],
      transpilePackages: ['@acme/orders'],
      outputFileTracingIncludes: { '/**': ['./texts/*'], '/api': ['./more/*'] },
    };
    const { output, serverExternalPackages, outputFileTracingIncludes } = withSvc(own);
    assert.equal(output, 'standalone');
    assert.deepEqual(serverExternalPackages.slice(0, 3), ['sharp', 'pg', 'svc']);
    assert.ok(!serverExternalPackages.includes('@acme/orders'));
    assert.deepEqual(outputFileTracingIncludes['/api'], ['./more/*']);
    const everywhere = outputFileTracingIncludes['/**'];
    assert.equal(everywhere[0], './texts/*');
    assert.ok(
      everywhere.includes('../../node_modules/.pnpm/pg@8/node_modules/pg/**/*.{js,cjs,mjs,json,node,wasm}'),
    );
    assert.ok(everywhere.includes('svc.config.json'));
  });

  it('is added to what a function makes', async () => {
    const asked: unknown[] = [];
    const config = async (...args: unknown[]) => {
      asked.push(...args);
      return { poweredByHeader: false, serverExternalPackages: ['sharp'] };
    };
    const { poweredByHeader, serverExternalPackages } = await withSvc(config)('phase', { defaultConfig: {} });
    assert.deepEqual(asked, ['phase', { defaultConfig: {} }]);
    assert.equal(poweredByHeader, false);
    assert.ok(serverExternalPackages.includes('svc'));
  });

  it('is there without a configuration of either', () => {
    rmSync(join(app, 'svc.config.json'));
    const { serverExternalPackages } = withSvc() as { serverExternalPackages: string[] };
    assert.ok(serverExternalPackages.includes('svc'));
  });
});

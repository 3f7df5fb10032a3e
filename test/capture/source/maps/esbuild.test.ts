import assert from 'node:assert/strict';
import { type BuildOptions, buildSync } from 'esbuild';
import { type Outcome, removeApps, runApp, writeApp } from '../run-app.ts';
import { calls, module, results, sources, targets } from './shop-source.ts';

/** Builds the shop with esbuild; returns its folder. */
function build(options: BuildOptions): string {
  const folder = writeApp(sources);
  buildSync({
    absWorkingDir: folder,
    entryPoints: ['src/main.ts'],
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node22',
    sourcemap: 'linked',
    logLevel: 'silent',
    ...options,
  });
  return folder;
}

function assertCaptured(outcome: Outcome): void {
  assert.match(outcome.stdout, new RegExp(results.replace(/[[\]"]/g, '\\$&')), outcome.stderr);
  for (const [path, [count, names]] of Object.entries(calls)) {
    const id = `${module}#${path}`;
    assert.equal(outcome.reports[id]?.state, 'patched', `${id}: ${outcome.reports[id]?.reason}`);
    assert.equal(outcome.calls[id], count, `${id}: ${JSON.stringify(outcome.reports[id])}`);
    assert.deepEqual(outcome.names[id], names, id);
  }
}

describe('capture by source map: esbuild', function () {
  this.timeout(60_000);
  after(removeApps);

  const forms: Record<string, BuildOptions> = {
    'ESM bundle, minified': { format: 'esm', outfile: 'dist/main.mjs' },
    'CommonJS bundle, minified': { format: 'cjs', outfile: 'dist/main.cjs' },
    'CommonJS bundle, minified, map inline': { format: 'cjs', outfile: 'dist/main.cjs', sourcemap: 'inline' },
    'CommonJS bundle, minified, map beside it without a comment': {
      format: 'cjs',
      outfile: 'dist/main.cjs',
      sourcemap: 'external',
    },
  };
  for (const [title, options] of Object.entries(forms)) {
    it(title, () => {
      const outcome = runApp(build(options), targets, { main: options.outfile ?? '' });
      assertCaptured(outcome);
      assert.match(outcome.reports[targets[0] ?? '']?.notes.join() ?? '', /in \.\/dist\/main/);
    });
  }
});

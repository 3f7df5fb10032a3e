import assert from 'node:assert/strict';
import { type BuildOptions, buildSync } from 'esbuild';
import { type Outcome, writeApp } from '../run-app.ts';
import { sources } from './shop-source.ts';

/** Builds the shop with esbuild; returns its folder. */
export function buildShop(options: BuildOptions, files: Record<string, string> = {}): string {
  const folder = writeApp({ ...sources, ...files });
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

export const cjs = { format: 'cjs', outfile: 'dist/main.cjs' } as const;
export const main = cjs.outfile;

/** Without any target captured: the application runs, and nothing but the line is printed. */
export function assertUntouched({ status, stdout, calls, reports }: Outcome): void {
  assert.equal(status, 0);
  assert.match(stdout, /RESULTS \["bellnone"/);
  assert.deepEqual(
    Object.values(calls).filter((count) => count > 0),
    [],
  );
  assert.deepEqual([...new Set(Object.values(reports).map(({ state }) => state))], ['pending']);
}

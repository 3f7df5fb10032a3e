import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, buildSync } from 'esbuild';
import { inspectBuilt } from '../../../../src/capture/source/maps/inspect-built.ts';
import type { Config } from '../../../../src/config/config.ts';
import { writeList } from '../../../../src/start/commands/write-list.ts';
import { type Outcome, runApp, writeApp } from '../run-app.ts';
import { assertCaptured, module, sources, targets } from './shop-source.ts';

/** Builds the shop with esbuild; returns its folder. */
function build(options: BuildOptions, files: Record<string, string> = {}): string {
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

const cjs = { format: 'cjs', outfile: 'dist/main.cjs' } as const;
const main = cjs.outfile;

const noParser = `const Module = require('node:module'); const resolve = Module._resolveFilename;
Module._resolveFilename = function (name, ...rest) {
  if (name === 'oxc-parser') throw new Error('oxc-parser is not there');
  return resolve.call(this, name, ...rest);
};`;
const watchMaps = `const fs = require('node:fs'); const read = fs.readFileSync;
fs.readFileSync = function (path, ...rest) {
  if (/\\.map$/.test(String(path))) fs.writeSync(1, 'MAP READ ' + path + '\\n');
  return read.call(this, path, ...rest);
};
require('node:module').syncBuiltinESMExports();`;

/** Without any target captured: the application runs, and nothing but the line is printed. */
function assertUntouched({ status, stdout, calls, reports }: Outcome): void {
  assert.equal(status, 0);
  assert.match(stdout, /RESULTS \["bellnone"/);
  assert.deepEqual(
    Object.values(calls).filter((count) => count > 0),
    [],
  );
  assert.deepEqual([...new Set(Object.values(reports).map(({ state }) => state))], ['pending']);
}

describe('capture by source map: esbuild', function () {
  this.timeout(60_000);

  const forms: Record<string, BuildOptions> = {
    'ESM bundle, minified': { format: 'esm', outfile: 'dist/main.mjs' },
    'CommonJS bundle, minified': cjs,
    'CommonJS bundle, minified, map inline': { ...cjs, sourcemap: 'inline' },
    'map beside it without a comment': { ...cjs, sourcemap: 'external' },
    'map without the texts of the sources': { ...cjs, sourcesContent: false },
    'one file each, in its own folder': {
      bundle: false,
      format: 'esm',
      outdir: 'dist',
      entryPoints: ['src/*.ts'],
    },
  };
  for (const [title, options] of Object.entries(forms)) {
    it(title, () => {
      const outcome = runApp(build(options), targets, { main: options.outfile ?? 'dist/main.js' });
      assertCaptured(outcome);
      assert.match(outcome.reports[targets[0] ?? '']?.notes.join() ?? '', /^in \.\/dist\/\w+\.[cm]?js$/);
    });
  }

  it('where the image holds no sources', () => {
    const folder = build(cjs);
    rmSync(join(folder, 'src'), { recursive: true });
    assertCaptured(runApp(folder, targets, { main }));
  });

  it('keeps the lines of stacks, with --enable-source-maps', () => {
    for (const options of [cjs, { ...cjs, sourcemap: 'inline' as const }]) {
      const outcome = runApp(build(options), targets, { main, before: ['--enable-source-maps'] });
      assertCaptured(outcome);
      const line =
        (sources['src/orders.ts'] ?? '').split('\n').findIndex((each) => each.includes('too many')) + 1;
      assert.match(outcome.stdout, new RegExp(`^LINE ${line}$`, 'm'));
    }
  });

  it('captures both places of a function that stands in two bundles, and counts each call once', () => {
    const entry = (name: string) =>
      `import { createOrder } from './orders.js'; export const ${name} = () => createOrder({ product: '${name}', quantity: 1 });`;
    const folder = build(
      {
        ...cjs,
        outfile: undefined,
        outdir: 'dist',
        entryPoints: ['src/a.ts', 'src/b.ts'],
      } as unknown as BuildOptions,
      {
        'src/a.ts': entry('a'),
        'src/b.ts': entry('b'),
        'dist/package.json': '{"type":"commonjs"}',
        'dist/start.js': "require('./a.js').a(); require('./b.js').b();",
      },
    );
    const id = `${module}#createOrder`;
    const { calls, reports } = runApp(folder, [id], { main: 'dist/start.js' });
    assert.equal(calls[id], 2);
    assert.deepEqual(reports[id]?.notes, ['in ./dist/a.js', 'in ./dist/b.js']);
  });

  it('says what the bundler inlined, and what it dropped', () => {
    const folder = build(cjs, {
      'src/small.ts': `export function same(value: string) { return value; }
export function unused() { return 1; }
export function used() { if (Date.now() < 0) throw new Error('before 1970'); return Date.now(); }
`,
      'src/main.ts': "import { same, used } from './small.js'; console.log(same('x'), used(), used());",
    });
    const [same, unused] = ['./src/small.ts#same', './src/small.ts#unused'] as const;
    const { status, reports } = runApp(folder, [same, unused], { main });
    assert.equal(status, 0);
    const note = 'inlined or dropped by the bundler: nothing of it is left there (./dist/main.cjs)';
    for (const id of [same, unused]) assert.deepEqual(reports[id]?.notes, [note]);
  });

  it('finds the same without loading anything, as svc check --bundle does', () => {
    const folder = build(cjs);
    const asked = [...targets, `${module}#createOrdre`].map((id) => ({
      ...{ id, module, function: id.slice(module.length + 1) },
    }));
    const found = inspectBuilt([join(folder, main)], asked, folder);
    for (const id of targets)
      assert.deepEqual(found.get(id), { isFound: true, remark: 'in ./dist/main.cjs' });
    const wrong = found.get(`${module}#createOrdre`);
    assert.equal(wrong?.isFound, false);
    assert.match(wrong?.remark ?? '', /did you mean createOrder\?.*\(\.\/dist\/main\.cjs\)/);
  });

  describe('the list of svc manifest', () => {
    const list = (folder: string) =>
      writeList({ baseDir: folder, targets: asked } as unknown as Config, [join(folder, main)]);
    const asked = targets.map((id) => ({ id, module, function: id.slice(module.length + 1) }));

    it('is all that a start reads: no map, no parser, no source', () => {
      const folder = build(cjs);
      const written = list(folder);
      assert.deepEqual([...new Set(written.targets.flatMap(({ files }) => files))], ['./dist/main.cjs']);
      rmSync(join(folder, 'src'), { recursive: true });
      rmSync(join(folder, `${main}.map`));
      writeFileSync(join(folder, 'no-parser.cjs'), noParser);
      const before = ['--require', join(folder, 'no-parser.cjs')];
      assertCaptured(runApp(folder, targets, { main, before, env: { CAPTURE_LOG: 'warn' } }));
      rmSync(join(folder, 'svc.manifest.json'));
      assert.deepEqual(runApp(folder, targets, { main, before }).calls, {});
    });

    it('is said to be of another build, and is not used, where it is one', () => {
      const folder = build(cjs);
      list(folder);
      const path = join(folder, main);
      writeFileSync(path, `/* later */${readFileSync(path, 'utf8')}`);
      const stale = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(
        stale.stderr,
        /svc\.manifest\.json does not fit \.\/dist\/main\.cjs, which is read instead: run svc manifest/,
      );
      assert.match(stale.stdout, /RESULTS \["bellnone"/);
      assertCaptured(runApp(build(cjs), targets, { main }));
    });

    it('is said to be damaged, and is not used, where it is', () => {
      const folder = build(cjs);
      writeFileSync(join(folder, 'svc.manifest.json'), '{"version":1,"fil');
      const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(outcome.stderr, /svc\.manifest\.json is not used: no JSON/);
      assertCaptured(outcome);
    });
  });

  it('reads no map where the files that targets name are loaded themselves', () => {
    const folder = build(
      {
        ...cjs,
        bundle: false,
        outdir: 'dist',
        outfile: undefined,
        entryPoints: ['src/*.ts'],
      } as unknown as BuildOptions,
      {
        'dist/package.json': '{"type":"commonjs"}',
        'watch.cjs': watchMaps,
      },
    );
    const before = ['--require', join(folder, 'watch.cjs')];
    const own = ['./dist/orders.js#createOrder', './dist/stamp.js#stamp'];
    const direct = runApp(folder, own, { main: 'dist/main.js', before });
    assert.deepEqual(
      own.map((id) => direct.reports[id]?.state),
      ['patched', 'patched'],
    );
    assert.doesNotMatch(direct.stdout, /MAP READ/);
    const mapped = runApp(folder, targets, { main: 'dist/main.js', before });
    assert.match(mapped.stdout, /MAP READ .*orders\.js\.map/);
  });

  it('names what the source does not have', () => {
    const id = `${module}#createOrdre`;
    const { reports } = runApp(build(cjs), [id], { main });
    assert.equal(
      reports[id]?.reason,
      'no createOrdre in this file (did you mean createOrder?) (./dist/main.cjs)',
    );
  });

  const bad: Record<string, [change: (map: string) => string, says: RegExp]> = {
    'is damaged': [
      (map) => map.slice(0, -100),
      /the source map of \.\/dist\/main\.cjs is not used: it is damaged: no JSON/,
    ],
    'has no mappings': [
      (map) => map.replace('"mappings"', '"other"'),
      /not used: it is damaged: no sources, or no mappings/,
    ],
    'has 100 MB': [
      (map) => map.replace('{', `{${' '.repeat(100_000_000)}`),
      /not used: it has 100 MB, and the limit is 32/,
    ],
  };
  for (const [title, [change, says]] of Object.entries(bad)) {
    it(`leaves the application as it was where the map ${title}`, () => {
      const folder = build(cjs);
      const path = join(folder, `${main}.map`);
      writeFileSync(path, change(readFileSync(path, 'utf8')));
      const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(outcome.stderr, says);
      assertUntouched(outcome);
    });
  }

  it('leaves the application as it was where the map is that of another file', () => {
    const [folder, other] = [build(cjs), build({ ...cjs, minify: false })];
    writeFileSync(join(folder, `${main}.map`), readFileSync(join(other, `${main}.map`)));
    const { status, stdout, stderr, calls } = runApp(folder, targets, {
      main,
      env: { CAPTURE_LOG: 'warn' },
    });
    assert.equal(status, 0);
    assert.match(stdout, /RESULTS \["bellnone"/);
    assert.match(
      stderr,
      /the source map does not fit the file: it is that of another build \(\.\/dist\/main\.cjs\)/,
    );
    assert.deepEqual(
      Object.values(calls).filter((count) => count > 0),
      [],
    );
  });

  it('reads nothing that a map names: sources that climb out of the project are only compared', () => {
    const folder = build(cjs);
    const path = join(folder, `${main}.map`);
    const map = JSON.parse(readFileSync(path, 'utf8')) as { sources: string[] };
    map.sources = map.sources.map((source) => `${'../'.repeat(40)}etc/${source}`);
    writeFileSync(path, JSON.stringify(map));
    const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
    assertUntouched(outcome);
    assert.equal(outcome.stderr, '');
  });
});

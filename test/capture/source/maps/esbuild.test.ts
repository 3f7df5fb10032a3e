import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decode, encode } from '@jridgewell/sourcemap-codec';
import type { BuildOptions } from 'esbuild';
import { writeList } from '../../../../src/capture/bundlers.ts';
import { inspectBuilt } from '../../../../src/capture/source/inspect-built.ts';
import type { Config } from '../../../../src/config/config.ts';
import { runApp, writeApp } from '../run-app.ts';
import { buildShop, cjs, main } from './build-shop.ts';
import { assertCaptured, module, sources, targets } from './shop-source.ts';

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
      const outcome = runApp(buildShop(options), targets, { main: options.outfile ?? 'dist/main.js' });
      assertCaptured(outcome);
      assert.match(outcome.reports[targets[0] ?? '']?.notes.join() ?? '', /^in \.\/dist\/\w+\.[cm]?js$/);
    });
  }

  it('where the image holds no sources', () => {
    const folder = buildShop(cjs);
    rmSync(join(folder, 'src'), { recursive: true });
    assertCaptured(runApp(folder, targets, { main }));
  });

  it('by the names of the map, where nobody has the source', () => {
    for (const minify of [true, false]) {
      const folder = buildShop({ ...cjs, sourcesContent: false, minify });
      rmSync(join(folder, 'src'), { recursive: true });
      assertCaptured(runApp(folder, targets, { main }));
      const id = `${module}#createOrdre`;
      assert.match(
        runApp(folder, [id], { main }).reports[id]?.reason ?? '',
        /^its source is missing, also from the source map, whose names do not lead to createOrdre \(/,
      );
    }
  });

  it('where the configuration names both a source and what was built of it', () => {
    for (const options of [cjs, { format: 'esm' as const, outfile: 'dist/main.mjs' }]) {
      const folder = buildShop({ ...options, minifyIdentifiers: false, minify: false });
      const own = `./${options.outfile}#main`;
      const asked = [...targets, own].map((id) => ({
        id,
        module: id.split('#')[0],
        function: id.split('#')[1],
      }));
      const direct = runApp(folder, [...targets, own], { main: options.outfile });
      assertCaptured(direct);
      writeList({ baseDir: folder, targets: asked } as unknown as Config, [join(folder, options.outfile)]);
      rmSync(join(folder, `${options.outfile}.map`));
      const listed = runApp(folder, [...targets, own], { main: options.outfile });
      assertCaptured(listed);
      for (const { calls, reports } of [direct, listed])
        assert.deepEqual([calls[own], reports[own]?.state], [1, 'patched'], JSON.stringify(reports[own]));
    }
  });

  it('keeps the lines of stacks, with --enable-source-maps', () => {
    for (const options of [cjs, { ...cjs, sourcemap: 'inline' as const }]) {
      const outcome = runApp(buildShop(options), targets, { main, before: ['--enable-source-maps'] });
      assertCaptured(outcome);
      const line =
        (sources['src/orders.ts'] ?? '').split('\n').findIndex((each) => each.includes('too many')) + 1;
      assert.match(outcome.stdout, new RegExp(`^LINE ${line}$`, 'm'));
    }
  });

  it('captures both places of a function that stands in two bundles, and counts each call once', () => {
    const entry = (name: string) =>
      `import { createOrder } from './orders.js'; export const ${name} = () => createOrder({ product: '${name}', quantity: 1 });`;
    const folder = buildShop(
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
    const folder = buildShop(cjs, {
      'src/small.ts': `export function same(value: string) { return value; }
export function unused() { return 1; }
export function used() { if (Date.now() < 0) throw new Error('before 1970'); return Date.now(); }
`,
      'src/main.ts': "import { same, used } from './small.js'; console.log(same('x'), used(), used());",
    });
    const [same, unused] = ['./src/small.ts#same', './src/small.ts#unused'] as const;
    const { status, reports } = runApp(folder, [same, unused], { main });
    assert.equal(status, 0);
    for (const id of [same, unused])
      assert.match(
        reports[id]?.notes.join() ?? '',
        /^inlined or dropped by the bundler: make it keep .*publishEvent\(options, fn\) \(\.\/dist\/main\.cjs\)$/,
      );
  });

  it('says what the bundler inlined and kept as well: calls of the kept one count', () => {
    const folder = buildShop(cjs);
    const [file, map] = [join(folder, main), join(folder, `${main}.map`)];
    const json = JSON.parse(readFileSync(map, 'utf8')) as { sources: string[]; mappings: string };
    const at = (sources['src/orders.ts'] ?? '').split('\n').findIndex((line) => line.includes('> 90'));
    const lines = decode(json.mappings);
    lines[1] = [[3, json.sources.findIndex((source) => source.endsWith('orders.ts')), at, 6]];
    writeFileSync(map, JSON.stringify({ ...json, mappings: encode(lines) }));
    writeFileSync(file, readFileSync(file, 'utf8').replace('\n', '\n0&&quantity;'));
    const id = `${module}#checkOrder`;
    const { calls, reports } = runApp(folder, [id], { main });
    assert.equal(calls[id], 3);
    assert.match(
      reports[id]?.notes.join() ?? '',
      /^in \.\/dist\/main\.cjs, also inlined by the bundler \(line 2\), where calls make no event: make it keep its/,
    );
  });

  for (const insert of ['insert(row) {', 'insert: (row) => {'])
    it(`what a factory returned, where the bundler put its body in place of the call: ${insert}`, () => {
      const source = `export function make() { return { ${insert} return row; } }; }\n`;
      const text = `const made = { ${insert} return row; } }; console.log(made.insert(1));`;
      const at = (word: string): [number, number, number, number] =>
        [...[text.indexOf(word), 0, 0, source.indexOf(word)]] as [number, number, number, number];
      const map = {
        ...{ version: 3, sources: ['../src/make.js'], sourcesContent: [source], names: [] },
        mappings: encode([[at('{ insert'), at('insert'), at('row'), at('return row')]]),
      };
      const folder = writeApp({ [main]: text, [`${main}.map`]: JSON.stringify(map) });
      const id = './src/make.js#make().insert';
      const { calls, reports, names } = runApp(folder, [id], { main });
      assert.deepEqual([calls[id], names[id]], [1, ['row']], JSON.stringify(reports));
    });

  it('one CommonJS file that a serverless runtime requires', () => {
    const folder = buildShop(
      { ...cjs, entryPoints: ['src/handler.ts'], outfile: 'dist/handler.js' },
      {
        'src/handler.ts': "import './main.js'; export const handler = async () => ({ statusCode: 200 });",
        'dist/package.json': '{"type":"commonjs"}',
        'runtime/start.cjs':
          "require('../dist/handler.js').handler().then(({ statusCode }) => console.log(statusCode));",
      },
    );
    const outcome = runApp(folder, targets, { main: 'runtime/start.cjs' });
    assertCaptured(outcome);
    assert.match(outcome.stdout, /^200$/m);
  });

  it('finds the same without loading anything, as svc check --bundle does', () => {
    const folder = buildShop(cjs);
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
      const folder = buildShop(cjs);
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
      const folder = buildShop(cjs);
      list(folder);
      const path = join(folder, main);
      writeFileSync(path, `/* later */${readFileSync(path, 'utf8')}`);
      const stale = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(
        stale.stderr,
        /svc\.manifest\.json does not fit \.\/dist\/main\.cjs, which is read instead: run svc manifest/,
      );
      assert.match(stale.stdout, /RESULTS \["bellnone"/);
      assertCaptured(runApp(buildShop(cjs), targets, { main }));
    });

    it('is said to be damaged, and is not used, where it is', () => {
      const folder = buildShop(cjs);
      writeFileSync(join(folder, 'svc.manifest.json'), '{"version":1,"fil');
      const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(outcome.stderr, /svc\.manifest\.json is not used: no JSON/);
      assertCaptured(outcome);
    });
  });

  it('reads no map where the files that targets name are loaded themselves', () => {
    const folder = buildShop(
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
    const { reports } = runApp(buildShop(cjs), [id], { main });
    assert.equal(
      reports[id]?.reason,
      'no createOrdre in this file (did you mean createOrder?) (./dist/main.cjs)',
    );
  });
});

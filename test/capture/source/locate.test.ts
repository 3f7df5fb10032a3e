import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isEsModule } from '../../../src/capture/source/parse-text.ts';
import { locate } from '../../../src/capture/source/target-files.ts';
import { writeApp } from './run-app.ts';

describe('capture: where a target’s module is', () => {
  const manifest = {
    name: 'app',
    type: 'module',
    exports: './src/orders.ts',
    imports: {
      '#orders': './src/orders.ts',
      '#dual': { types: './src/orders.d.ts', import: './src/esm.mjs', require: './src/cjs.cjs' },
      '#lib/*': './src/*.ts',
      '#lib/deep/*': ['./src/deep/*.ts', './none/*.ts'],
      '#vendor': 'vendor/sub',
      '#gone': './dist/gone.js',
    },
  };
  const app = () =>
    writeApp({
      'package.json': JSON.stringify(manifest),
      'src/orders.ts': '',
      'src/esm.mjs': '',
      'src/cjs.cjs': '',
      'src/deep/x.ts': '',
      'src/stock/index.ts': '',
      'lib/billing.js': '',
      'lib/billing/index.js': '',
      'lib/both.js': '',
      'lib/both.ts': '',
      'lib/twice/index.js': '',
      'lib/twice/index.ts': '',
      'lib/own/package.json': '{"main":"start"}',
      'lib/own/start.js': '',
      'lib/own/index.js': '',
      'node_modules/vendor/package.json': '{"name":"vendor"}',
      'node_modules/@acme/stock': '->../../packages/stock',
      'packages/stock/package.json': '{"name":"@acme/stock","main":"lib/main"}',
      'packages/stock/lib/main.js': '',
      'packages/stock/other.js': '',
      'node_modules/@acme/closed': '->../../packages/closed',
      'packages/closed/package.json':
        '{"name":"@acme/closed","exports":{".":{"types":"./x.d.ts","default":"./dist/index.js"}}}',
    });
  const paths = (folder: string, ...names: string[]) => ({ paths: names.map((name) => join(folder, name)) });

  for (const module of ['./src/orders.ts', '.\\src\\orders.ts', 'src\\orders.ts', './src/../src/orders.ts']) {
    it(`finds ${module}`, () => {
      const folder = app();
      assert.deepEqual(locate(module, folder), paths(folder, 'src/orders.ts'));
    });
  }

  for (const [module, file] of [
    ['./src/orders', 'src/orders.ts'],
    ['./src/orders.js', 'src/orders.ts'],
    ['./src/stock', 'src/stock/index.ts'],
    ['./src/stock/', 'src/stock/index.ts'],
    ['./lib/billing', 'lib/billing.js'],
    ['./lib/own', 'lib/own/start.js'],
  ] as const)
    it(`finds ${file} for ${module}, as the application does`, () => {
      const folder = app();
      assert.deepEqual(locate(module, folder), paths(folder, file));
    });

  it('finds absolute paths, file URLs and files above', () => {
    const folder = app();
    const file = join(folder, 'src/orders.ts');
    assert.deepEqual(locate(file, '/'), { paths: [file] });
    assert.deepEqual(locate(pathToFileURL(file).href, '/'), { paths: [file] });
    assert.deepEqual(locate('../orders.ts', join(folder, 'src/deep')), { paths: [file] });
  });

  it('finds #imports: exact, by pattern, for import and require, the longest pattern first', () => {
    const folder = app();
    assert.deepEqual(locate('#orders', folder), paths(folder, 'src/orders.ts'));
    assert.deepEqual(locate('#orders', join(folder, 'src')), paths(folder, 'src/orders.ts'));
    assert.deepEqual(locate('#lib/orders', folder), paths(folder, 'src/orders.ts'));
    const [esm = '', cjs = ''] = paths(folder, 'src/esm.mjs', 'src/cjs.cjs').paths;
    const builds = new Map([
      [esm, ['import']],
      [cjs, ['require']],
    ]);
    assert.deepEqual(locate('#dual', folder), { paths: [esm, cjs], builds });
    assert.deepEqual(locate('#lib/deep/x', folder), paths(folder, 'src/deep/x.ts'));
    assert.deepEqual(locate('#vendor', folder), { specifier: 'vendor/sub', from: folder });
  });

  it('takes a linked workspace package and the own package for own files', () => {
    const folder = app();
    assert.deepEqual(locate('@acme/stock', folder), paths(folder, 'packages/stock/lib/main.js'));
    assert.deepEqual(
      locate('@acme/stock', join(folder, 'src/deep')),
      paths(folder, 'packages/stock/lib/main.js'),
    );
    assert.deepEqual(locate('@acme/stock/other', folder), paths(folder, 'packages/stock/other.js'));
    assert.deepEqual(locate('app', folder), paths(folder, 'src/orders.ts'));
  });

  it('leaves packages and built-in modules to the package hooks', () => {
    const folder = app();
    assert.deepEqual(locate('vendor', folder), { specifier: 'vendor', from: folder });
    assert.deepEqual(locate('vendor/sub.js', folder), { specifier: 'vendor/sub.js', from: folder });
    assert.deepEqual(locate('node:fs', folder), { specifier: 'node:fs', from: folder });
    assert.deepEqual(locate('fs', folder), { specifier: 'fs', from: folder });
    assert.deepEqual(locate('not-installed', folder), { specifier: 'not-installed', from: folder });
  });

  const problems: [string, string][] = [
    ['./src/esm', 'no such file: ./src/esm (did you mean ./src/esm.mjs?)'],
    ['./lib/both', './lib/both may be ./lib/both.ts or ./lib/both.js: name one of them'],
    ['./lib/twice/', './lib/twice may be ./lib/twice/index.ts or ./lib/twice/index.js: name one of them'],
    ['./src/ordres.ts', 'no such file: ./src/ordres.ts (did you mean ./src/orders.ts?)'],
    ['./src/invoices.ts', 'no such file: ./src/invoices.ts'],
    ['./sources/orders.ts', 'no such file: ./sources/orders.ts (there is no folder ./sources)'],
    ['src/orders.js', 'src/orders.js is a package name (did you mean ./src/orders.js?)'],
    ['src/orders.ts', 'src/orders.ts is a package name (did you mean ./src/orders.ts?)'],
    ['#nothing', 'the package.json above has no "imports" entry for #nothing'],
    ['#gone', '#gone leads to no file: no such file: ./dist/gone.js (there is no folder ./dist)'],
    ['@acme/closed/inner', 'the package @acme/closed exports no "./inner"'],
    [
      '@acme/closed',
      '@acme/closed leads to no file: no such file: ./packages/closed/dist/index.js (there is no folder ./packages/closed/dist)',
    ],
  ];
  for (const [module, problem] of problems) {
    it(`says what is wrong with ${module}`, () => {
      assert.deepEqual(locate(module, app()), { problem });
    });
  }

  it('tells ES modules from CommonJS', () => {
    const folder = app();
    const isModule = (name: string) => isEsModule(join(folder, name));
    assert.deepEqual(
      ['src/orders.ts', 'a.mts', 'a.mjs', 'a.cts', 'a.cjs', 'packages/stock/other.js'].map(isModule),
      [true, true, true, false, false, false],
    );
  });
});

import assert from 'node:assert/strict';
import { join, relative } from 'node:path';
import { followImports } from '../../src/capture/inspect.ts';
import { compiledFrom } from '../../src/capture/source/compiled-from.ts';
import { writeApp } from './source/run-app.ts';

describe('capture: what a start loads', () => {
  const follow = (files: Record<string, string>, ...entries: string[]) => {
    const folder = writeApp(files);
    const { files: found, unknown } = followImports(
      entries.map((entry) => join(folder, entry)),
      folder,
    );
    return { files: [...found].map((file) => relative(folder, file)), unknown };
  };

  it('follows imports, exports, require() and import() with a text', () => {
    const { files, unknown } = follow(
      {
        'main.mjs': `
          import './a.mjs'; import x, { y } from "./b.mjs"; export * from './c.mjs'; export { z } from './d.mjs';
          if (globalThis.never) await import('./e.mjs');
          import fs from 'node:fs'; import 'pg'; import '#own';`,
        'package.json': '{"imports":{"#own":"./own.mjs"}}',
        'node_modules/pg/package.json': '{"name":"pg","exports":{"import":"./esm.mjs"}}',
        'a.mjs': "import './f.cjs'; import './a.mjs';",
        ...{ 'b.mjs': '', 'c.mjs': '', 'd.mjs': '', 'e.mjs': '', 'own.mjs': '', 'lib/index.js': '' },
        'f.cjs': "function later() { return require('./lib'); }",
      },
      'main.mjs',
    );
    assert.deepEqual(files.sort(), [
      ...['a.mjs', 'b.mjs', 'c.mjs', 'd.mjs', 'e.mjs', 'f.cjs', 'lib/index.js', 'main.mjs', 'own.mjs'],
    ]);
    assert.deepEqual(unknown, []);
  });

  it('follows TypeScript by the names that its loaders know, and no types', () => {
    const { files, unknown } = follow(
      {
        'main.ts':
          "import './a.js';\nimport type { T } from './t.js';\nimport b = require('./b');\nexport type * from './t.js';",
        ...{ 'a.ts': '', 't.ts': '', 'b/index.ts': '' },
      },
      'main.ts',
    );
    assert.deepEqual(files.sort(), ['a.ts', 'b/index.ts', 'main.ts']);
    assert.deepEqual(unknown, []);
  });

  it('takes both files where loaders differ, and what Node takes where none has a say', () => {
    const both = { 'a.js': '', 'a.ts': '' };
    assert.deepEqual(follow({ 'main.ts': "import './a.js'", ...both }, 'main.ts').files.sort(), [
      ...['a.js', 'a.ts', 'main.ts'],
    ]);
    assert.deepEqual(follow({ 'main.js': "import './a.js'", ...both }, 'main.js').files.sort(), [
      ...['a.js', 'main.js'],
    ]);
  });

  it('says what it cannot follow', () => {
    const { unknown } = follow(
      {
        'main.mjs': "\nconst name = './a.mjs';\nawait import(name);\nimport './gone.mjs';\nimport '@/alias';",
        'broken.mjs': 'export {',
      },
      ...['main.mjs', 'broken.mjs'],
    );
    assert.deepEqual(unknown, ['main.mjs:3', 'main.mjs:4', 'main.mjs:5', 'broken.mjs:1']);
  });
});

describe('capture: which file was made from another', () => {
  const made = (source: string, loaded: readonly string[], more: Record<string, string> = {}) => {
    const files = Object.fromEntries([source, ...loaded].map((file) => [file, '']));
    const folder = writeApp({ 'package.json': '{}', ...files, ...more });
    const found = compiledFrom(
      join(folder, source),
      loaded.map((file) => join(folder, file)),
      folder,
    );
    return found && relative(folder, found);
  };

  for (const [source, built] of [
    ['src/orders.ts', 'dist/orders.js'],
    ['src/a/orders.mts', 'dist/a/orders.mjs'],
    ['src/orders.ts', 'dist/src/orders.js'],
    ['orders.ts', 'dist/orders.js'],
    ['src/orders.ts', 'src/orders.js'],
  ] as const)
    it(`${built} is made of ${source}, by its name`, () => {
      assert.equal(made(source, ['dist/main.js', built]), built);
    });

  for (const [source, other] of [
    ['src/index.ts', 'dist/users/index.js'],
    ['src/users/index.ts', 'dist/index.js'],
    ['src/users/index.ts', 'src/index.js'],
    ['src/users/index.ts', 'dist/orders/index.js'],
    ['src/index.js', 'lib/index.js'],
    ['src/orders.ts', 'dist/order.js'],
  ] as const)
    it(`${other} is not made of ${source}`, () => {
      assert.equal(made(source, [other]), undefined);
    });

  it('a source map says it, of bundles and of JavaScript as well', () => {
    const map = (...sources: string[]) => JSON.stringify({ sources, mappings: '' });
    assert.equal(
      made('src/orders.ts', ['dist/main.js'], { 'dist/main.js.map': map('../src/a.ts', '../src/orders.ts') }),
      'dist/main.js',
    );
    assert.equal(
      made('src/index.js', ['lib/index.js'], { 'lib/index.js.map': map('../src/index.js') }),
      'lib/index.js',
    );
    assert.equal(made('src/a.ts', ['dist/b.js'], { 'dist/b.js.map': 'no JSON' }), undefined);
  });
});

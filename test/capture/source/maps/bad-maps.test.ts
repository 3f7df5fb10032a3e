import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import sinon from 'sinon';
import { readMap, sourcesAt } from '../../../../src/capture/source/source-map.ts';
import { temporaryFolder } from '../../../support/folders.ts';
import { runApp } from '../run-app.ts';
import { assertUntouched, buildShop, cjs, main } from './build-shop.ts';
import { targets } from './shop-source.ts';

const watchReads = `const fs = require('node:fs');
const read = fs.readFileSync;
fs.readFileSync = function (path, ...rest) {
  fs.writeSync(1, 'READ ' + path + '\\n');
  return read.call(this, path, ...rest);
};
require('node:module').syncBuiltinESMExports();`;

interface Map {
  readonly mappings: string;
  readonly sources: readonly string[];
}

function change(folder: string, by: (map: Map) => Map): void {
  const path = join(folder, `${main}.map`);
  writeFileSync(path, JSON.stringify(by(JSON.parse(readFileSync(path, 'utf8')) as Map)));
}

describe('capture by source map: maps that are none', function () {
  this.timeout(60_000);

  const bad: Record<string, [change: (map: string) => string, says: RegExp]> = {
    'is damaged': [
      (map) => map.slice(0, -100),
      /the source map of \.\/dist\/main\.cjs is not used: it is damaged: no JSON/,
    ],
    'has no mappings': [
      (map) => map.replace('"mappings"', '"other"'),
      /not used: it is damaged: no sources, or no mappings/,
    ],
    'has sections without a place': [
      (map) => `{"sections":[{"map":${map}}]}`,
      /not used: it is damaged: its sections have no offset/,
    ],
    'has sources that are no texts': [
      (map) => map.replace('"sources": [', '"sources": [7,'),
      /not used: it is damaged: no sources, or no mappings/,
    ],
    'has texts of sources that are none': [
      (map) => map.replace('"sourcesContent": [', '"sourcesContent": [7,'),
      /not used: it is damaged: its texts are not strings/,
    ],
    'has 100 MB': [
      (map) => map.replace('{', `{${' '.repeat(100_000_000)}`),
      /not used: it has 100 MB, and the limit is 32/,
    ],
  };
  for (const [title, [change, says]] of Object.entries(bad)) {
    it(`leaves the application as it was where the map ${title}`, () => {
      const folder = buildShop(cjs);
      const path = join(folder, `${main}.map`);
      writeFileSync(path, change(readFileSync(path, 'utf8')));
      const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
      assert.match(outcome.stderr, says);
      assertUntouched(outcome);
    });
  }

  it('leaves the application as it was where the map is that of another file', () => {
    const [folder, other] = [buildShop(cjs), buildShop({ ...cjs, minify: false })];
    writeFileSync(join(folder, `${main}.map`), readFileSync(join(other, `${main}.map`)));
    const { status, stdout, stderr, calls } = runApp(folder, targets, {
      main,
      env: { CAPTURE_LOG: 'warn' },
    });
    assert.equal(status, 0);
    assert.match(stdout, /RESULTS \["bellnone"/);
    assert.match(stderr, /the source map belongs to another build of the file \(\.\/dist\/main\.cjs\)/);
    assert.deepEqual(
      Object.values(calls).filter((count) => count > 0),
      [],
    );
  });

  it('leaves the application as it was where the mappings are none', () => {
    const folder = buildShop(cjs);
    change(folder, (map) => ({ ...map, mappings: `§${map.mappings}` }));
    const { status, stdout, reports } = runApp(folder, targets, { main });
    assert.deepEqual([status, /RESULTS \["bellnone"/.test(stdout)], [0, true]);
    for (const id of targets)
      assert.match(reports[id]?.reason ?? '', /the source map belongs to another build/);
  });

  function mappingsOf(mappings: string) {
    const folder = temporaryFolder('maps');
    const [file, text] = [join(folder, 'main.cjs'), 'f();\n//# sourceMappingURL=main.cjs.map\n'];
    writeFileSync(`${file}.map`, JSON.stringify({ version: 3, mappings, sources: ['a.ts'] }));
    const map = readMap(file, text, ['a.ts']);
    assert.ok(map !== undefined && 'parts' in map);
    return sourcesAt(map, join(folder, 'a.ts'), [], text)[0]?.mappings();
  }

  for (const mappings of ['AAAAg', 'AAAA,g', 'AAAA,gg;', 'AAAA;g,AAAA', 'AAAA AAAA', '\u0100'])
    it(`takes no part of mappings that end within a number, or hold what is none: ${mappings}`, () => {
      assert.equal(mappingsOf(mappings), undefined);
    });

  it('says what to do in a process without WebAssembly', () => {
    sinon.stub(globalThis as { WebAssembly?: unknown }, 'WebAssembly').value(undefined);
    try {
      assert.throws(
        () => mappingsOf('AAAA'),
        /it needs WebAssembly, which --jitless disables: use svc manifest/,
      );
    } finally {
      sinon.restore();
    }
    assert.deepEqual(mappingsOf('AAAA'), [{ at: 0, line: 0, column: 0, name: -1 }]);
  });

  it('leaves the application as it was where a map in the file is damaged', () => {
    const folder = buildShop({ ...cjs, sourcemap: 'inline' });
    const path = join(folder, main);
    writeFileSync(path, readFileSync(path, 'utf8').replace(/base64,.{40}/, 'base64,'));
    const outcome = runApp(folder, targets, { main, env: { CAPTURE_LOG: 'warn' } });
    assert.match(outcome.stderr, /the source map of \.\/dist\/main\.cjs is not used: it is damaged: no JSON/);
    assertUntouched(outcome);
  });

  const elsewhere: Record<string, (source: string) => string> = {
    'that climb out of the project': (source) => `${'../'.repeat(40)}etc/${source}`,
    'of another folder': (source) => `/srv/other/${source}`,
    'of another project': (source) => `webpack://other/../../other/${source}`,
    'of the web': (source) => `https://example.com/%zz/a/${source}`,
    'with addresses that are none': (source) => `file:///a%2Fb/c/${source}`,
  };
  for (const [title, moved] of Object.entries(elsewhere))
    it(`opens nothing that a map names: sources ${title} are only compared`, () => {
      const folder = buildShop(cjs);
      change(folder, (map) => ({ ...map, sources: map.sources.map(moved) }));
      writeFileSync(join(folder, 'watch.cjs'), watchReads);
      const before = ['--require', join(folder, 'watch.cjs')];
      const outcome = runApp(folder, targets, { main, before, env: { CAPTURE_LOG: 'warn' } });
      assertUntouched(outcome);
      assert.equal(outcome.stderr, '');
      assert.doesNotMatch(outcome.stdout, /READ .*(?:etc|other|example|a%2Fb|a\/b)/);
      assert.match(outcome.stdout, /READ .*main\.cjs\.map/);
    });
});

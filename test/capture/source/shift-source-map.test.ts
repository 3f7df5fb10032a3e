import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join } from 'node:path';
import { insert } from '../../../src/capture/source/insert-calls.ts';
import { findAll } from '../../../src/capture/source/rewrite-text.ts';
import { temporaryFolder } from '../../support/folders.ts';

// What esbuild --minify-whitespace makes of eight lines of TypeScript, and its map.
const code =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program
  'async function createOrder(id){return place(id)}function place(id){return new Error(`at ${id}`).stack}const cancel=id=>place(-id);export{cancel,createOrder};\n';
const map = {
  version: 3,
  sources: ['t.ts'],
  mappings:
    'AAAA,eAAsB,YAAY,GAA6B,CAC7D,OAAO,MAAM,EAAE,CACjB,CACA,SAAS,MAAM,GAAoB,CACjC,OAAO,IAAI,MAAM,MAAM,EAAE,EAAE,EAAE,KAC/B,CACO,MAAM,OAAU,IACrB,MAAM,CAAC,EAAE',
  names: [],
};
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64');
const inline = (value: unknown = map) => `//# sourceMappingURL=data:application/json;base64,${encode(value)}`;

function inserted(text: string, file = '/app/t.mjs', names = ['createOrder', 'place', 'cancel']): string {
  const targets = names.map((functionPath) => ({
    id: functionPath,
    functionPath,
  }));
  const events = { found: () => true, problem: (_: string, reason: string) => assert.fail(reason) };
  return insert(text, findAll(file, text, { goal: 'module', typed: false }, targets, events), file);
}

function readMap(text: string): SourceMap {
  const [, encoded = ''] = /base64,([\w+/=]+)\s*$/.exec(text) ?? [];
  return new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()));
}

const lineOf = (source: SourceMap, text: string, part: string) => {
  const entry = source.findEntry(0, text.indexOf(part));
  return 'originalLine' in entry ? entry.originalLine + 1 : undefined;
};

/** The lines of the source that three places of the text came from. */
const linesOf = (text: string) =>
  ['place(id)}', 'new Error', 'place(-id)'].map((part) => lineOf(readMap(text), text, part));

describe('capture: source maps of texts that were changed', () => {
  const sourceMapsEnabled = process.sourceMapsEnabled;
  afterEach(() => process.setSourceMapsEnabled(sourceMapsEnabled));

  it('leads from every place to the line it came from, as before', () => {
    assert.deepEqual(linesOf(code + inline()), [2, 5, 8]);
    const text = inserted(code + inline());
    assert.ok(text.length > code.length + 300);
    assert.deepEqual(linesOf(text), [2, 5, 8]);
  });

  it('would lead elsewhere without it', () => {
    const text = inserted(code) + inline();
    assert.notDeepEqual(linesOf(text), [2, 5, 8]);
  });

  it('shifts only the lines that something was inserted in', () => {
    const mappings = `AAAA;AACA;${map.mappings}`;
    const text = inserted(`\n\n${code}${inline({ ...map, mappings })}`, '/app/t.mjs', ['cancel']);
    const shifted = JSON.parse(Buffer.from(text.split('base64,')[1] ?? '', 'base64').toString());
    const [first, second, third] = shifted.mappings.split(';');
    assert.notEqual(third, map.mappings);
    assert.deepEqual([first, second], ['AAAA', 'AACA']);
  });

  it('leaves a map alone that is none, has sections that are none, or has no mappings', () => {
    for (const other of [
      'not a map',
      { version: 3, sections: [{}] },
      { version: 3, mappings: 5 },
      { ...map, mappings: '?AAA' },
    ]) {
      assert.ok(inserted(code + inline(other)).endsWith(inline(other)), JSON.stringify(other));
    }
  });

  it('shifts the sections of an indexed map, and the line within one', () => {
    const sections = [{ offset: { line: 0, column: 0 }, map }];
    const after = inserted(code + inline({ version: 3, sections }));
    const shifted = JSON.parse(Buffer.from(after.split('base64,')[1] ?? '', 'base64').toString());
    const plain = JSON.parse(
      Buffer.from(inserted(code + inline(map)).split('base64,')[1] ?? '', 'base64').toString(),
    );
    assert.notEqual(plain.mappings, map.mappings);
    assert.equal(shifted.sections[0].map.mappings, plain.mappings);
  });

  it('takes a map from beside the file, where Node uses source maps', () => {
    const folder = temporaryFolder('map');
    writeFileSync(join(folder, 't.mjs.map'), JSON.stringify(map));
    const text = `${code}//# sourceMappingURL=t.mjs.map\n`;
    process.setSourceMapsEnabled(true);
    assert.deepEqual(linesOf(inserted(text, join(folder, 't.mjs'))), [2, 5, 8]);
    assert.ok(inserted(text, join(folder, 'missing', 't.mjs')).endsWith('//# sourceMappingURL=t.mjs.map\n'));
    process.setSourceMapsEnabled(false);
    assert.ok(inserted(text, join(folder, 't.mjs')).endsWith('//# sourceMappingURL=t.mjs.map\n'));
  });
});

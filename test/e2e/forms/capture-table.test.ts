import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { neighbours } from '../toolchains/neighbours.ts';
import { toolchains } from '../toolchains/toolchains.ts';
import { captureTable, tableIds, unreachableTable } from './capture-table.ts';
import { forms } from './forms.ts';

const docs = join(import.meta.dirname, '../../../docs');
const begin = /<!-- made from test\/e2e\/forms:.* -->\n/;
const end = '<!-- end -->';

describe('docs/capture.md', () => {
  const ids = [...forms, ...toolchains, ...neighbours].map(({ id }) => id);

  it('every form has an id of its own', () => {
    assert.deepEqual(
      ids.filter((id, index) => ids.indexOf(id) !== index),
      [],
    );
  });

  it('every form is a row, and every row has its test', () => {
    assert.deepEqual([...tableIds].sort(), [...ids].sort());
  });

  it('what cannot be captured has a way round', () => {
    const without = forms.filter(({ kind, wayRound }) => kind === 'unreachable' && !wayRound);
    assert.deepEqual(without, []);
  });

  for (const [name, made] of [
    ['capture.md', unreachableTable()],
    ['internals/capture.md', captureTable()],
  ] as const)
    it(`${name} has the table that follows from the forms (SVC_UPDATE_DOCS=1 writes it)`, () => {
      const page = join(docs, name);
      const text = readFileSync(page, 'utf8');
      const [marker = ''] = begin.exec(text) ?? [];
      const from = text.indexOf(marker) + marker.length;
      const to = text.indexOf(end);
      assert.ok(marker !== '' && to >= from, 'the markers are missing');
      const table = `\n${made}`;
      if (process.env.SVC_UPDATE_DOCS) writeFileSync(page, text.slice(0, from) + table + text.slice(to));
      else assert.equal(text.slice(from, to), table);
    });
});

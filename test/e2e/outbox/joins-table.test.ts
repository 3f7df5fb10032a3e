import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { joinsTable } from './joins-table.ts';
import { libraries } from './libraries.ts';

const page = join(import.meta.dirname, '../../../docs/internals/outbox.md');
const begin =
  '<!-- made from test/e2e/outbox: SVC_UPDATE_DOCS=1 npm test -- test/e2e/outbox/joins-table.test.ts -->\n';
const end = '<!-- end -->';

describe('docs/internals/outbox.md', () => {
  it('every library has an id of its own', () => {
    assert.equal(new Set(libraries.map(({ id }) => id)).size, libraries.length);
  });

  it('has the table that follows from the libraries (SVC_UPDATE_DOCS=1 writes it)', () => {
    const text = readFileSync(page, 'utf8');
    const from = text.indexOf(begin) + begin.length;
    const to = text.indexOf(end);
    assert.ok(text.includes(begin) && to >= from, 'the markers are missing');
    const table = `\n${joinsTable()}`;
    if (process.env.SVC_UPDATE_DOCS) writeFileSync(page, text.slice(0, from) + table + text.slice(to));
    else assert.equal(text.slice(from, to), table);
  });
});

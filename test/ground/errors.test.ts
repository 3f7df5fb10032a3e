import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { errorCatalogue, SvcError } from '../../src/ground/errors.ts';

const root = resolve(import.meta.dirname, '../..');
const codes = Object.keys(errorCatalogue);
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && file !== 'ground/errors.ts')
  .map((file) => ({ file, text: readFileSync(join(root, 'src', file), 'utf8') }));

describe('errors', () => {
  it('every code is documented, and nothing else is', () => {
    const documented = [
      ...readFileSync(join(root, 'docs/errors.md'), 'utf8').matchAll(/^\| `(SVC_[A-Z_]+)`/gm),
    ].map((match) => match[1]);
    assert.deepEqual(documented.sort(), [...codes].sort());
  });

  it('every code is raised somewhere', () => {
    const raised = codes.filter((code) => sources.some(({ text }) => text.includes(`'${code}'`)));
    assert.deepEqual(raised, codes);
  });

  it('the middle word is the folder that raises it', () => {
    const misplaced = codes.filter((code) => {
      const folder = (code.split('_')[1] as string).toLowerCase();
      const places = [`${folder}/`, `${folder}.ts`, `start/${folder}.ts`];
      return !sources.some(
        ({ file, text }) => places.some((place) => file.startsWith(place)) && text.includes(`'${code}'`),
      );
    });
    assert.deepEqual(
      // An aggregate id is the outbox's, and taken out of the call where all expressions are.
      misplaced.filter((code) => !code.startsWith('SVC_PROTECT_') && code !== 'SVC_OUTBOX_AGGREGATE_ID'),
      [],
    );
  });

  it('carries a code, the name that the specification gives, and no cause', () => {
    const error = new SvcError('SVC_PROTECT_TOO_LARGE', 'too large', { name: 'TimeoutException' });
    assert.equal(error.code, 'SVC_PROTECT_TOO_LARGE');
    assert.equal(error.name, 'TimeoutException');
    assert.equal('cause' in error, false);
    assert.ok(error instanceof Error);
  });
});

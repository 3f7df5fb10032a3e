import assert from 'node:assert/strict';
import Module, { createRequire } from 'node:module';
import { loadOwnCopy } from '../../../src/ground/files.ts';

const load = createRequire(import.meta.url);
/** Any packages of one file each, as each is loaded once. */
const [late, early, begun] = ['postgres-array', 'postgres-date', 'postgres-bytea'] as const;

describe('a package of the application that svc loads', () => {
  beforeEach(() => {
    for (const name of [late, early, begun]) delete load.cache[load.resolve(name)];
  });

  it('is loaded again for the application, whose instrumentations may not have been there, and once for svc', () => {
    const own = loadOwnCopy(late);
    assert.equal(load.resolve(late) in load.cache, false);
    assert.notEqual(load(late), own);
    assert.equal(loadOwnCopy(late), own);
  });

  it('is the same where the application was first', () => {
    const its = load(early);
    assert.equal(loadOwnCopy(early), its);
    assert.equal(load(early), its);
  });

  it('is another one than what an import of the application has begun, which goes on', () => {
    const file = load.resolve(begun);
    const its = new Module(file);
    load.cache[file] = its;
    assert.equal(typeof loadOwnCopy(begun), 'function');
    assert.equal(load.cache[file], its);
    assert.equal(its.loaded, false);
  });

  it('is told by its name where it is not there', () => {
    assert.throws(() => loadOwnCopy('no-such-package'), {
      code: 'MODULE_NOT_FOUND',
      message: /'no-such-package'/,
    });
  });
});

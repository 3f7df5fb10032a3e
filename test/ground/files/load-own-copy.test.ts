import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { loadOwnCopy } from '../../../src/ground/files/load-own-copy.ts';

const load = createRequire(import.meta.url);
/** Any package of one file. */
const name = 'postgres-array';

describe('a package of the application that svc loads', () => {
  beforeEach(() => {
    delete load.cache[load.resolve(name)];
  });

  it('is loaded again for the application, whose instrumentations may not have been there', () => {
    const own = loadOwnCopy(name);
    assert.equal(load.resolve(name) in load.cache, false);
    assert.notEqual(load(name), own);
  });

  it('is the same where the application was first', () => {
    const its = load(name);
    assert.equal(loadOwnCopy(name), its);
    assert.equal(load(name), its);
  });

  it('is told by its name where it is not there', () => {
    assert.throws(() => loadOwnCopy('no-such-package'), {
      code: 'MODULE_NOT_FOUND',
      message: /'no-such-package'/,
    });
  });
});

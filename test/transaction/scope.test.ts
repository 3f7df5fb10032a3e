import assert from 'node:assert/strict';
import { patchOnce } from '../../src/transaction/patch-method.ts';
import { Scope, Transaction } from '../../src/transaction/transaction.ts';
import { fakeConnection } from './fake-session.ts';

const newTransaction = (): Transaction => new Transaction(fakeConnection().connection.session, undefined);

describe('scope of a function', () => {
  it('has written outside of a transaction only where it has, whatever else has ended meanwhile', () => {
    const scope = new Scope(undefined);
    const [ended, open] = [newTransaction(), newTransaction()];
    scope.uses(ended, false);
    scope.uses(open, true);
    ended.hasEnded('committed');
    assert.deepEqual(scope.open(), [open]);
    assert.deepEqual([scope.wroteOutside, scope.endedAs, scope.wroteAndLostAll], [false, undefined, false]);
    open.hasEnded('committed');
    assert.deepEqual(scope.open(), []);
    assert.deepEqual([scope.wroteOutside, scope.endedAs], [true, 'committed']);
  });

  it('that has only read has not written in vain, however that transaction ends', () => {
    const scope = new Scope(undefined);
    const read = newTransaction();
    scope.uses(read, false);
    read.hasEnded('rolled_back');
    assert.deepEqual([scope.open(), scope.wroteAndLostAll], [[], false]);
  });
});

describe('patch of a driver', () => {
  it('is made once, and again where it was not', () => {
    const prototype = {};
    let patches = 0;
    assert.throws(() =>
      patchOnce(prototype, () => {
        throw new Error('unknown version');
      }),
    );
    for (let copy = 0; copy < 2; copy++) patchOnce(prototype, () => patches++);
    assert.equal(patches, 1);
  });
});

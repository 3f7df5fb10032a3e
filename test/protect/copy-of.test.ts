import assert from 'node:assert/strict';
import { Budget, copyOf } from '../../src/protect/protect.ts';

const maxNodes = 100_000;

describe('copy of an object', () => {
  function budgetFor(left: number): Budget {
    const budget = new Budget();
    budget.spend(maxNodes - left);
    return budget;
  }

  it('has as many keys as values may still be read, and not one more', () => {
    assert.deepEqual(copyOf({ a: 1, b: 2 }, budgetFor(2)), { a: 1, b: 2 });
    assert.throws(() => copyOf({ a: 1, b: 2 }, budgetFor(1)), { code: 'SVC_PROTECT_TOO_LARGE' });
  });
});

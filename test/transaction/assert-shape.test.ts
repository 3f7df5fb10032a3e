import assert from 'node:assert/strict';
import { assertShape } from '../../src/transaction/patch-method.ts';

describe('the shape of a package', () => {
  class Known {
    query(): void {}
  }

  it('is sound where each path leads to a function, inherited ones too', () => {
    assertShape({ Client: class extends Known {} }, ['Client', 'Client.prototype.query']);
  });

  const others: readonly unknown[] = [
    undefined,
    null,
    1,
    {},
    { Client: null },
    { Client: { prototype: {} } },
  ];
  for (const other of others)
    it(`is not that of ${JSON.stringify(other)}`, () => {
      assert.throws(() => assertShape(other, ['Client.prototype.query']), /no Client\.prototype\.query\(\)/);
    });
});

import assert from 'node:assert/strict';
import { findPlace, putInPlace } from '../../../src/capture/wrap/imitate.ts';

describe('the place of a property', () => {
  it('is own or inherited, and none that every object and function has', () => {
    class Base {
      save(): void {}
    }
    class Orders extends Base {
      create(): void {}
    }
    assert.equal(findPlace(Orders.prototype, 'create')?.isOwn, true);
    assert.equal(findPlace(Orders.prototype, 'save')?.isOwn, false);
    assert.equal(findPlace(Orders.prototype, 'toString'), undefined);
    assert.equal(findPlace(Orders, 'bind'), undefined);
    assert.equal(findPlace(Orders, 'none'), undefined);
    for (const value of [undefined, null, 'text', 1]) assert.equal(findPlace(value, 'length'), undefined);
  });

  it('takes a wrapper and keeps its flags; an inherited one stays as it is, and its owner gets a hidden one', () => {
    const base = Object.defineProperty({}, 'save', { value: () => 1, enumerable: true, configurable: true });
    const owner = Object.create(base) as object;
    const place = findPlace(owner, 'save') ?? assert.fail();
    const wrapper = () => 2;
    assert.equal(putInPlace(place, { value: wrapper }), true);
    assert.deepEqual(Object.getOwnPropertyDescriptor(owner, 'save'), {
      value: wrapper,
      enumerable: false,
      configurable: true,
      writable: false,
    });
    assert.equal((base as { save(): number }).save(), 1);
  });

  it('takes nothing where it is locked', () => {
    const frozen = Object.freeze({ save: () => 1 });
    assert.equal(putInPlace(findPlace(frozen, 'save') ?? assert.fail(), { value: () => 2 }), false);
    assert.equal(frozen.save(), 1);
  });
});

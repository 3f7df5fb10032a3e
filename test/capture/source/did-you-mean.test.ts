import assert from 'node:assert/strict';
import { didYouMean, nearest } from '../../../src/capture/source/did-you-mean.ts';

describe('capture: nearest names', () => {
  it('finds typing mistakes, the best first', () => {
    const names = ['createOrder', 'createOrders', 'cancelOrder', 'x'];
    assert.deepEqual(nearest('creatOrder', names), ['createOrder', 'createOrders']);
    assert.deepEqual(nearest('craeteOrder', names)[0], 'createOrder');
    assert.deepEqual(nearest('CREATEORDER', names)[0], 'createOrder');
  });

  it('takes up to a third of the letters, or two', () => {
    assert.deepEqual(nearest('abcdefghi', ['abcdefxyz']), ['abcdefxyz']);
    assert.deepEqual(nearest('abcdefghi', ['abcdewxyz']), []);
    assert.deepEqual(nearest('abc', ['axy']), ['axy']);
    assert.deepEqual(nearest('abc', ['xyz']), []);
  });

  it('finds the last part of a longer path', () => {
    assert.deepEqual(nearest('create', ['OrderService.prototype.create']), ['OrderService.prototype.create']);
    assert.deepEqual(nearest('a.b.create', ['x.y.z.create']), ['x.y.z.create']);
  });

  it('says nothing when nothing is near, and never the name itself', () => {
    assert.equal(didYouMean('a', ['a']), '');
    assert.equal(didYouMean('ab', ['ac', 'ac']), ' (did you mean ac?)');
  });
});

import assert from 'node:assert/strict';
import { didYouMean, nearestName, nearestNames } from '../../src/ground/names.ts';

describe('nearestName', () => {
  const names = ['svc.broker.topic', 'svc.broker.client', 'svc.broker', 'svc.log.level'];

  it('finds typing mistakes, swapped letters, other spellings and the wrong place', () => {
    assert.equal(nearestName('svc.broker.topik', names), 'svc.broker.topic');
    assert.equal(nearestName('svc.broker.otpic', names), 'svc.broker.topic');
    assert.equal(nearestName('SVC.Broker_Topic'.replace('_', '.'), names), 'svc.broker.topic');
    assert.equal(nearestName('svc.level', names), 'svc.log.level');
    assert.equal(nearestName('broker', names), 'svc.broker');
  });

  it('takes two edits in a short word, and not three', () => {
    assert.equal(nearestName('abxx', ['abcd']), 'abcd');
    assert.equal(nearestName('axxx', ['abcd']), undefined);
  });

  it('says nothing where nothing is near', () => {
    assert.equal(nearestName('svc.something', names), undefined);
    assert.equal(nearestName('', []), undefined);
    assert.equal(nearestName('x'.repeat(10_000), names), undefined);
  });
});

describe('nearestNames', () => {
  it('finds typing mistakes, the best first', () => {
    const names = ['createOrder', 'createOrders', 'cancelOrder', 'x'];
    assert.deepEqual(nearestNames('creatOrder', names), ['createOrder', 'createOrders']);
    assert.deepEqual(nearestNames('craeteOrder', names)[0], 'createOrder');
    assert.deepEqual(nearestNames('CREATEORDER', names)[0], 'createOrder');
  });

  it('takes up to a third of the letters, or two', () => {
    assert.deepEqual(nearestNames('abcdefghi', ['abcdefxyz']), ['abcdefxyz']);
    assert.deepEqual(nearestNames('abcdefghi', ['abcdewxyz']), []);
    assert.deepEqual(nearestNames('abc', ['axy']), ['axy']);
    assert.deepEqual(nearestNames('abc', ['xyz']), []);
  });

  it('finds the last part of a longer path', () => {
    assert.deepEqual(nearestNames('create', ['OrderService.prototype.create']), [
      'OrderService.prototype.create',
    ]);
    assert.deepEqual(nearestNames('a.b.create', ['x.y.z.create']), ['x.y.z.create']);
  });

  it('says nothing when nothing is near, and never the name itself', () => {
    assert.equal(didYouMean('a', ['a']), '');
    assert.equal(didYouMean('ab', ['ac', 'ac']), ' (did you mean ac?)');
  });
});

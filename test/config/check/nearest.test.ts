import assert from 'node:assert/strict';
import { nearestName } from '../../../src/config/check/nearest.ts';

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
  });
});

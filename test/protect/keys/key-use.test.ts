import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createSealer } from '../../../src/protect/keys/create-sealer.ts';
import { createKeyRing, KeyCounter, type KeyUse } from '../../../src/protect/keys/key-ring.ts';

const usedUp = { code: 'SVC_PROTECT_KEY_USED_UP' };

describe('what one key encrypts', () => {
  let told: KeyUse[];
  const onWorn = (use: KeyUse) => void told.push(use);
  beforeEach(() => {
    told = [];
  });

  it('is 2^32 values at most: the last one is accepted, and the next one refused for good', () => {
    assert.equal(KeyCounter.max, 4_294_967_296);
    const counter = new KeyCounter('k1', { onWorn, maxMessages: 2 ** 40 });
    counter.count(2 ** 31);
    assert.deepEqual(told, []);
    counter.count();
    assert.deepEqual(told, [{ keyId: 'k1', messages: 2 ** 31, isUsedUp: false }]);
    counter.count(2 ** 31 - 2);
    assert.equal(counter.isUsedUp, false);
    counter.count();
    assert.equal(counter.isUsedUp, true);
    for (let use = 0; use < 3; use++) assert.throws(() => counter.count(), usedUp);
    assert.throws(() => counter.check(), usedUp);
    assert.deepEqual(told.slice(1), [{ keyId: 'k1', messages: 2 ** 32, isUsedUp: true }]);
  });

  it('is counted for each configured key apart, and for encryption alone', () => {
    const ring = createKeyRing(
      [
        { id: 'new', key: randomBytes(32), status: 'primary' },
        { id: 'cards', key: randomBytes(32) },
      ],
      { maxMessages: 3, onWorn },
    );
    for (let use = 0; use < 10; use++) ring.forEncryption(undefined);
    for (let use = 0; use < 3; use++) ring.take(undefined);
    assert.throws(() => ring.take('new'), usedUp);
    assert.throws(() => ring.forEncryption(undefined), usedUp);
    assert.equal(ring.take('cards').id, 'cards');
    assert.equal(ring.find('new')?.id, 'new');
    assert.deepEqual(
      told.map(({ keyId, isUsedUp }) => [keyId, isUsedUp]),
      [
        ['new', false],
        ['new', true],
      ],
    );
  });

  it('makes a sealer refuse, and health say why', () => {
    const sealer = createSealer({ keys: [{ id: 'k1', key: randomBytes(32) }], use: { maxMessages: 2 } });
    const encrypt = () => sealer.encrypt('x', { keyId: undefined, eventType: 'E', path: 'a' });
    encrypt();
    assert.equal(sealer.keyState(undefined).usable, true);
    encrypt();
    assert.throws(encrypt, {
      ...usedUp,
      message:
        'the encryption key "k1" has encrypted 2 values, the limit of one key. Make a new key the primary key',
    });
    const { usable, error } = sealer.keyState(undefined);
    assert.deepEqual([usable, error?.includes('"k1" has encrypted 2 values')], [false, true]);
  });
});

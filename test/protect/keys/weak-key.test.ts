import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createSealer, openSalt } from '../../../src/protect/keys/create-sealer.ts';
import { useLogger } from '../../support/log.ts';

const text = (value: string) => Buffer.from(value);
const bytes = (from: (index: number) => number, length = 32) =>
  Uint8Array.from({ length }, (_, index) => from(index));

const isWeak = (key: Uint8Array) =>
  createSealer({ keys: [{ id: 'k', key }] })
    .weakKeys()
    .includes('k');

describe('a weak key', () => {
  it('has equal bytes, repeats itself or counts', () => {
    const weak = [
      text('k'.repeat(32)),
      Buffer.alloc(32),
      text('0123456789abcdef'.repeat(2)),
      text('passwordpasswordpasswordpassword'),
      text('changeme-changeme-changeme-chang'),
      text('abcdefghijklmnopqrstuvwxyz012345'),
      bytes((index) => index),
      bytes((index) => 255 - index),
      bytes((index) => (250 + index * 7) & 0xff),
    ];
    for (const key of weak) assert.equal(isWeak(key), true, Buffer.from(key).toString('latin1'));
    const warnings: string[] = [];
    const logger = { warn: (message: string) => void warnings.push(message) };
    useLogger(logger);
    openSalt({ salt: 's'.repeat(16), requireSalt: true }).announce();
    assert.match(warnings.join(), /^SECURITY: svc.pii.crypto.salt is not random/);
  });

  it('is named by its id, unless it is for decryption only', () => {
    const key = Buffer.alloc(32);
    const keys = [
      { id: 'new', key: randomBytes(32), status: 'primary' as const },
      { id: 'cards', key },
      { id: 'old', key, status: 'decrypt' as const },
    ];
    assert.deepEqual(createSealer({ keys }).weakKeys(), ['cards']);
  });

  it('has at most 8 different bytes of 32, or a unit of 16, or 24 equal steps of 31', () => {
    const random = Uint8Array.from([7, 201, 54, 133, 90, 18, 240, 77, 161, 3, 119, 66, 188, 29, 250, 101]);
    const of = (different: number) =>
      bytes((index) => random[(index * 5 + (index >> 3)) % different] as number);
    assert.deepEqual([new Set(of(8)).size, isWeak(of(8))], [8, true]);
    assert.deepEqual([new Set(of(9)).size, isWeak(of(9))], [9, false]);
    const twice = bytes((index) => random[index % 16] as number);
    assert.equal(isWeak(twice), true);
    assert.equal(isWeak(bytes((index) => (index === 31 ? 0 : (twice[index] as number)))), false);
    const counting = (steps: number) =>
      bytes((index) => (index <= steps ? index : (random[(index * 3) % 16] as number)));
    assert.equal(isWeak(counting(24)), true);
    assert.equal(isWeak(counting(23)), false);
  });

  it('is none of those that are random, in bytes, Base64 or hexadecimal digits', () => {
    for (let index = 0; index < 5_000; index++) {
      assert.equal(isWeak(randomBytes(32)), false);
      assert.equal(isWeak(text(randomBytes(24).toString('base64'))), false);
    }
  });
});

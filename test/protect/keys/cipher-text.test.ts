import assert from 'node:assert/strict';
import { createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import {
  contextOf,
  decryptText,
  isCipherText,
  maxEncryptedKeyBytes,
  parseCipherText,
  splitEnvelope,
  toHead,
  writeCipherText,
} from '../../../src/protect/keys/key-ring.ts';

const key = createSecretKey(randomBytes(32));
const place = { keyId: undefined, eventType: 'ORDER', path: 'customer.email' };
const damaged = { code: 'SVC_PROTECT_CIPHERTEXT' };

describe('ciphertext', () => {
  it('v0 is ENC(base64), with the encrypted data key in front where there is one', () => {
    const plain = parseCipherText(writeCipherText({ id: 'k1', key }, 'text', 'v0', place));
    assert.equal(plain.keyId, undefined);
    assert.equal(decryptText(key, plain.bytes, undefined), 'text');

    const encryptedKey = randomBytes(184);
    const text = writeCipherText({ id: 'k1', key, head: toHead(encryptedKey) }, 'text', 'v0', place);
    assert.match(text, /^ENC\([A-Za-z0-9+/]+=*\)$/);
    const { bytes } = parseCipherText(text);
    assert.equal(bytes.readUInt16BE(0), 184);
    const parts = splitEnvelope(bytes);
    assert.deepEqual(parts.encryptedKey, encryptedKey);
    assert.equal(decryptText(key, parts.sealed, undefined), 'text');
  });

  it('v1 names its key and is bound to key id, event type and path', () => {
    const text = writeCipherText({ id: 'k-1', key }, 'text', 'v1', place);
    assert.match(text, /^ENC\(v1:k-1:[A-Za-z0-9+/]+=*\)$/);
    const { keyId, bytes } = parseCipherText(text);
    assert.equal(keyId, 'k-1');
    assert.equal(
      contextOf('k-1', 'ORDER', 'customer.email').toString(),
      'svc.pii/1\0k-1\0ORDER\0customer.email',
    );
    assert.equal(decryptText(key, bytes, contextOf('k-1', 'ORDER', 'customer.email')), 'text');
    for (const other of [
      contextOf('k-2', 'ORDER', 'customer.email'),
      contextOf('k-1', 'REFUND', 'customer.email'),
      contextOf('k-1', 'ORDER', 'customer.phone'),
      undefined,
    ])
      assert.throws(() => decryptText(key, bytes, other), { code: 'SVC_PROTECT_DECRYPT_FAILED' });
  });

  it('takes what begins with ENC( and ends with ) for a ciphertext', () => {
    assert.equal(isCipherText('ENC()'), true);
    assert.equal(isCipherText('ENC(a) '), false);
    assert.equal(isCipherText('enc(a)'), false);
    assert.equal(isCipherText('HASH(a)'), false);
  });

  it('refuses Base64 that is not exact: other alphabets, white space, missing padding, spare bits', () => {
    for (const inner of ['YWI', 'YWJ=', 'YW I=', '-_==', 'YWI=\n', 'YWI=YWI=', '====', 'é'])
      assert.throws(() => parseCipherText(`ENC(${inner})`), damaged, inner);
    assert.deepEqual(parseCipherText('ENC(YWI=)').bytes.toString(), 'ab');
  });

  it('refuses other versions and bad key ids', () => {
    for (const inner of [
      'v2:k:YWI=',
      'v1:k',
      'v1::YWI=',
      'v1:k/..:YWI=',
      'v1:k:YWI=:',
      ':YWI=',
      `v1:${'k'.repeat(129)}:YWI=`,
    ])
      assert.throws(() => parseCipherText(`ENC(${inner})`), damaged, inner);
    assert.equal(parseCipherText(`ENC(v1:${'k'.repeat(128)}:YWI=)`).keyId, 'k'.repeat(128));
  });

  it('takes data keys of 1 to 32767 bytes', () => {
    for (const length of [0, maxEncryptedKeyBytes + 1])
      assert.throws(() => toHead(Buffer.alloc(length)), { code: 'SVC_PROTECT_KEY_REFUSED' });
    for (const length of [1, maxEncryptedKeyBytes]) {
      const { encryptedKey, sealed } = splitEnvelope(
        Buffer.concat([toHead(Buffer.alloc(length, 7)), Buffer.from('rest')]),
      );
      assert.deepEqual([encryptedKey.length, sealed.toString()], [length, 'rest']);
    }
    const tooLong = Buffer.alloc(40_000);
    tooLong.writeUInt16BE(maxEncryptedKeyBytes + 1);
    assert.throws(() => splitEnvelope(tooLong), damaged);
  });

  it('ends in a coded error for any bytes and any text, and never reads beyond the end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          const { encryptedKey, sealed } = splitEnvelope(Buffer.from(bytes));
          assert.equal(2 + encryptedKey.length + sealed.length, bytes.length);
        } catch (error) {
          assert.equal((error as { code?: string }).code, damaged.code);
        }
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const candidate of [text, `ENC(${text})`, `ENC(v1:k:${text})`]) {
          try {
            parseCipherText(candidate);
          } catch (error) {
            assert.equal((error as { code?: string }).code, damaged.code);
            if (text.length > 8) assert.ok(!(error as Error).message.includes(text));
          }
        }
      }),
    );
  });
});

import assert from 'node:assert/strict';
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { cipherTexts } from '../../../src/protect/keys/key-ring.ts';

const raw = randomBytes(32);
const key = createSecretKey(raw);
const context = 'somewhere';
const failed = { code: 'SVC_PROTECT_DECRYPT_FAILED' };
const damaged = { code: 'SVC_PROTECT_CIPHERTEXT' };
/** Any text that UTF-8 can hold. */
const text = fc.string({ unit: 'binary', maxLength: 200 });

/** `path`: format v1, bound to this path; `undefined`: format v0. */
function encryptText(
  by: KeyObject,
  plain: string,
  head: Buffer | undefined,
  path: string | undefined,
): Buffer {
  const place = { keyId: undefined, eventType: 'E', path: path ?? '' };
  const written = cipherTexts.write(
    { id: 'k', key: by, head },
    plain,
    path === undefined ? 'v0' : 'v1',
    place,
  );
  return Buffer.from(written.slice(path === undefined ? 4 : 9, -1), 'base64');
}

function decryptText(by: KeyObject, sealed: Buffer, path: string | undefined): string {
  const inner = `${path === undefined ? '' : 'v1:k:'}${sealed.toString('base64')}`;
  return cipherTexts.parse(`ENC(${inner})`, { eventType: 'E', path: path ?? '' }).open(by);
}

const ivOf = () => encryptText(key, '', undefined, undefined).subarray(0, 12);

describe('encrypt', () => {
  it('decrypts what it encrypted, with and without a head and a context', () => {
    fc.assert(
      fc.property(text, fc.boolean(), fc.uint8Array({ maxLength: 40 }), (plain, isBound, headBytes) => {
        const bound = isBound ? context : undefined;
        const head = headBytes.length === 0 ? undefined : Buffer.from(headBytes);
        const sealed = encryptText(key, plain, head, bound);
        assert.deepEqual(sealed.subarray(0, headBytes.length), Buffer.from(headBytes));
        assert.equal(decryptText(key, sealed.subarray(headBytes.length), bound), plain);
      }),
    );
  });

  it('lays out iv (12) | ciphertext | tag (16), as plain node:crypto reads and writes it', () => {
    const sealed = encryptText(key, 'Grüße 👋', undefined, undefined);
    assert.equal(sealed.length, 12 + Buffer.byteLength('Grüße 👋') + 16);
    const decipher = createDecipheriv('aes-256-gcm', raw, sealed.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(sealed.subarray(-16));
    const plain = Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]);
    assert.equal(plain.toString(), 'Grüße 👋');

    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', raw, iv, { authTagLength: 16 });
    const foreign = Buffer.concat([iv, cipher.update('x'), cipher.final(), cipher.getAuthTag()]);
    assert.equal(decryptText(key, foreign, undefined), 'x');
  });

  it('fails for any bit that is flipped', () => {
    const sealed = encryptText(key, 'jonathan@example.com', undefined, context);
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const other = Buffer.from(sealed);
      other[bit >> 3] = (other[bit >> 3] as number) ^ (1 << (bit & 7));
      assert.throws(() => decryptText(key, other, context), failed, `bit ${bit}`);
    }
  });

  it('fails for another key and for another context, none included', () => {
    const sealed = encryptText(key, 'secret', undefined, context);
    assert.throws(() => decryptText(createSecretKey(randomBytes(32)), sealed, context), failed);
    assert.throws(() => decryptText(key, sealed, 'elsewhere'), failed);
    assert.throws(() => decryptText(key, sealed, undefined), failed);
    const unbound = encryptText(key, 'secret', undefined, undefined);
    assert.throws(() => decryptText(key, unbound, context), failed);
  });

  it('ends in a coded error for every truncation, from either end', () => {
    const sealed = encryptText(key, 'secret', undefined, undefined);
    for (let length = 0; length < sealed.length; length++) {
      const expected = length < 28 ? damaged : failed;
      assert.throws(() => decryptText(key, sealed.subarray(0, length), undefined), expected);
      assert.throws(() => decryptText(key, sealed.subarray(sealed.length - length), undefined), expected);
    }
  });

  it('says that the IV is short up to 11 bytes, and that the rest is missing up to 27', () => {
    const message = (length: number): string => {
      try {
        decryptText(key, Buffer.alloc(length), undefined);
      } catch (error) {
        return (error as Error).message;
      }
      return '';
    };
    assert.match(message(11), /^Envelope decryption error: the IV is 11 bytes, shorter than 12/);
    assert.match(message(12), /^Envelope decryption error: 12 bytes are too short/);
    assert.match(message(27), /^Envelope decryption error: 27 bytes are too short/);
    assert.match(message(28), /integrity check/);
    assert.equal(decryptText(key, encryptText(key, '', undefined, undefined), undefined), '');
  });

  it('never accepts a shorter tag', () => {
    const sealed = encryptText(key, '', undefined, undefined);
    for (const tagBytes of [4, 8, 12, 15])
      assert.throws(() => decryptText(key, sealed.subarray(0, 12 + tagBytes), undefined), damaged);
  });

  it('never hands out an IV twice, over several fillings of the pool', () => {
    const seen = new Set<string>();
    for (let count = 0; count < 5_000; count++) seen.add(ivOf().toString('hex'));
    assert.equal(seen.size, 5_000);
  });

  it('fills the pool with random bytes', () => {
    const ones = Array.from({ length: 1_000 }, () => [...ivOf()]).flat();
    const mean = ones.reduce((sum, byte) => sum + byte, 0) / ones.length;
    assert.ok(Math.abs(mean - 127.5) < 5, `mean of ${mean}`);
  });
});

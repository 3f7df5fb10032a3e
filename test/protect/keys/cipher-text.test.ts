import assert from 'node:assert/strict';
import { createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { cipherTexts } from '../../../src/protect/keys/key-ring.ts';

const key = createSecretKey(randomBytes(32));
const place = { keyId: undefined, eventType: 'ORDER', path: 'customer.email' };
const damaged = { code: 'SVC_PROTECT_CIPHERTEXT' };

const parse = (text: string, at = place) => cipherTexts.parse(text, at);
const bytesOf = (text: string) => Buffer.from(text.replace(/^ENC\((.*:)?|\)$/g, ''), 'base64');
const textOf = (bytes: Uint8Array) => `ENC(${Buffer.from(bytes).toString('base64')})`;

describe('ciphertext', () => {
  it('v0 is ENC(base64), with the encrypted data key in front where there is one', () => {
    const plain = parse(cipherTexts.write({ id: 'k1', key }, 'text', 'v0', place));
    assert.equal(plain.keyId, undefined);
    assert.equal(plain.open(key), 'text');

    const encryptedKey = randomBytes(184);
    const head = cipherTexts.headOf(encryptedKey);
    const text = cipherTexts.write({ id: 'k1', key, head }, 'text', 'v0', place);
    assert.match(text, /^ENC\([A-Za-z0-9+/]+=*\)$/);
    assert.equal(bytesOf(text).readUInt16BE(0), 184);
    const envelope = parse(text).envelope();
    assert.deepEqual(envelope.encryptedKey, encryptedKey);
    assert.equal(envelope.open(key), 'text');
  });

  it('v1 names its key and is bound to key id, event type and path', () => {
    const text = cipherTexts.write({ id: 'k-1', key }, 'text', 'v1', place);
    assert.match(text, /^ENC\(v1:k-1:[A-Za-z0-9+/]+=*\)$/);
    assert.equal(parse(text).keyId, 'k-1');
    assert.equal(parse(text).open(key), 'text');
    const bytes = bytesOf(text);
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAAD(Buffer.from('svc.pii/1\0k-1\0ORDER\0customer.email'));
    decipher.setAuthTag(bytes.subarray(-16));
    assert.equal(
      decipher.update(bytes.subarray(12, -16), undefined, 'utf8') + decipher.final('utf8'),
      'text',
    );
    for (const moved of [
      parse(text.replace('k-1', 'k-2')),
      parse(text, { ...place, eventType: 'REFUND' }),
      parse(text, { ...place, path: 'customer.phone' }),
      parse(textOf(bytes)),
    ])
      assert.throws(() => moved.open(key), { code: 'SVC_PROTECT_DECRYPT_FAILED' });
  });

  it('takes what begins with ENC( and ends with ) for a ciphertext', () => {
    assert.equal(cipherTexts.isOne('ENC()'), true);
    assert.equal(cipherTexts.isOne('ENC(a) '), false);
    assert.equal(cipherTexts.isOne('enc(a)'), false);
    assert.equal(cipherTexts.isOne('HASH(a)'), false);
  });

  it('refuses Base64 that is not exact: other alphabets, white space, missing padding, spare bits', () => {
    for (const inner of ['YWI', 'YWJ=', 'YW I=', '-_==', 'YWI=\n', 'YWI=YWI=', '====', 'é'])
      assert.throws(() => parse(`ENC(${inner})`), damaged, inner);
    assert.throws(() => parse('ENC(YWI=)'), /the IV is 2 bytes/);
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
      assert.throws(() => parse(`ENC(${inner})`), damaged, inner);
    assert.equal(parse(`ENC(v1:${'k'.repeat(128)}:YWI=)`).keyId, 'k'.repeat(128));
  });

  it('takes data keys of 1 to 32767 bytes', () => {
    for (const length of [0, 32_768])
      assert.throws(() => cipherTexts.headOf(Buffer.alloc(length)), { code: 'SVC_PROTECT_KEY_REFUSED' });
    for (const length of [1, 32_767]) {
      const head = cipherTexts.headOf(Buffer.alloc(length, 7));
      const { encryptedKey, open } = parse(
        cipherTexts.write({ id: 'k', key, head }, 'rest', 'v0', place),
      ).envelope();
      assert.deepEqual([encryptedKey, open(key)], [Buffer.alloc(length, 7), 'rest']);
    }
    const tooLong = Buffer.alloc(40_000);
    tooLong.writeUInt16BE(32_768);
    assert.throws(() => parse(textOf(tooLong)).envelope(), damaged);
  });

  it('ends in a coded error for any bytes and any text, and never reads beyond the end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          const { encryptedKey } = parse(`ENC(v1:k:${Buffer.from(bytes).toString('base64')})`).envelope();
          assert.equal(encryptedKey.length, Buffer.from(bytes).readUInt16BE(0));
          assert.deepEqual(encryptedKey, Buffer.from(bytes.subarray(2, 2 + encryptedKey.length)));
          assert.ok(2 + encryptedKey.length + 28 <= bytes.length);
        } catch (error) {
          assert.equal((error as { code?: string }).code, damaged.code);
        }
      }),
      {
        examples: [
          [Uint8Array.from([0, 34, ...randomBytes(62)])],
          [Uint8Array.from([0, 35, ...randomBytes(62)])],
        ],
      },
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const candidate of [text, `ENC(${text})`, `ENC(v1:k:${text})`]) {
          try {
            parse(candidate);
          } catch (error) {
            assert.equal((error as { code?: string }).code, damaged.code);
            if (text.length > 8) assert.ok(!(error as Error).message.includes(text));
          }
        }
      }),
    );
  });
});

import type { KeyObject } from 'node:crypto';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';

const algorithm = 'aes-256-gcm';
const tagBytes = 16;
/** Without it Node accepts tags of 4 bytes, which can be forged. */
const options = { authTagLength: tagBytes };

/** Where the parts of most ciphertexts are put together: a new buffer for each takes as long as its encryption. */
const scratch = Buffer.alloc(16_384);

/**
 * Base64 of `iv | ciphertext | tag`, after `head` where there is one. A surrogate without its pair becomes U+FFFD, as in any
 * UTF-8.
 */
export function encryptText(
  key: KeyObject,
  plain: string,
  head: Buffer | undefined,
  context: Buffer | undefined,
): string {
  const iv = nextIv();
  const cipher = nodeCrypto().createCipheriv(algorithm, key, iv, options);
  if (context !== undefined) cipher.setAAD(context);
  const text = cipher.update(plain, 'utf8');
  cipher.final();
  const tag = cipher.getAuthTag();
  const start = head === undefined ? 0 : head.length;
  const end = start + ivBytes + text.length;
  const target = end + tagBytes <= scratch.length ? scratch : Buffer.allocUnsafe(end + tagBytes);
  if (head !== undefined) target.set(head);
  target.set(iv, start);
  target.set(text, start + ivBytes);
  target.set(tag, end);
  return target.toString('base64', 0, end + tagBytes);
}

/**
 * The text in `iv | ciphertext | tag`. Throws `SVC_PROTECT_CIPHERTEXT` for what cannot be one, `SVC_PROTECT_DECRYPT_FAILED`
 * for a wrong key, other bytes or another context; nothing of the content is in either.
 */
export function decryptText(key: KeyObject, sealed: Buffer, context: Buffer | undefined): string {
  checkSealed(sealed);
  const end = sealed.length - tagBytes;
  const decipher = nodeCrypto().createDecipheriv(algorithm, key, sealed.subarray(0, ivBytes), options);
  if (context !== undefined) decipher.setAAD(context);
  decipher.setAuthTag(sealed.subarray(end));
  try {
    const text = decipher.update(sealed.subarray(ivBytes, end));
    decipher.final();
    return text.toString('utf8');
  } catch {
    throw new SvcError(
      'SVC_PROTECT_DECRYPT_FAILED',
      'the ciphertext does not pass its integrity check: wrong key, damaged, or moved from another field',
    );
  }
}

export function checkSealed(sealed: Buffer): void {
  const { length } = sealed;
  if (length >= ivBytes + tagBytes) return;
  throw new SvcError(
    'SVC_PROTECT_CIPHERTEXT',
    length < ivBytes
      ? `Envelope decryption error: the IV is ${length} bytes, shorter than ${ivBytes}`
      : `Envelope decryption error: ${length} bytes are too short for IV and tag, which take ${ivBytes + tagBytes}`,
  );
}

const ivBytes = 12;
const slots = 1024;

let pool: Buffer | undefined;
let next = slots;
/** One for all, so that no value needs a view of the pool. */
const iv = Buffer.allocUnsafeSlow(ivBytes);

/**
 * 12 random bytes that were never handed out before: filled by the thousand, as one call per field costs 1.5 us.
 * Valid until the next call only, so that a slot cannot be kept and used twice.
 */
export function nextIv(): Buffer {
  pool ??= Buffer.allocUnsafeSlow(slots * ivBytes);
  if (next === slots) {
    nodeCrypto().randomFillSync(pool);
    next = 0;
  }
  const start = next++ * ivBytes;
  for (let byte = 0; byte < ivBytes; byte++) iv[byte] = pool[start + byte] as number;
  return iv;
}

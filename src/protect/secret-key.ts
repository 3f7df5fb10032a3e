import type { KeyObject } from 'node:crypto';
import { nodeCrypto } from '../builtins.ts';
import { SvcError } from '../errors.ts';
import { decodeStrictBase64 } from './strict-base64.ts';

export const keyLengthBytes = 32;

/**
 * The key of AES-256 as a key object, which Node uses several times faster than raw bytes. A string is Base64.
 * Throws `SVC_PROTECT_KEY_LENGTH` (`IllegalArgumentException`), with the found length and nothing of the key.
 */
export function toSecretKey(key: string | Uint8Array): KeyObject {
  const bytes = typeof key === 'string' ? decodeStrictBase64(key) : key;
  if (bytes === undefined) throw bad(`found ${key.length} characters that are not valid Base64`);
  if (bytes.length !== keyLengthBytes) throw bad(`found ${bytes.length}`);
  const object = nodeCrypto().createSecretKey(bytes);
  if (bytes !== key) bytes.fill(0);
  return object;
}

function bad(found: string): SvcError {
  return new SvcError(
    'SVC_PROTECT_KEY_LENGTH',
    `Encryption key must be exactly ${keyLengthBytes} bytes, written in Base64; ${found}`,
    { name: 'IllegalArgumentException' },
  );
}

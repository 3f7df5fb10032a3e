import type { KeyObject } from 'node:crypto';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import { keyLengthBytes, readKeyText } from '../../ground/key-text.ts';

export { keyLengthBytes };

/**
 * The key of AES-256 as a key object, which Node uses several times faster than raw bytes. A string is read by `key-text.ts`.
 * Throws `SVC_PROTECT_KEY_LENGTH` (`IllegalArgumentException`), with the found length and nothing of the key.
 */
export function toSecretKey(key: string | Uint8Array): KeyObject {
  const read = typeof key === 'string' ? readKeyText(key) : undefined;
  const bytes = read?.bytes ?? (key as Uint8Array);
  if (bytes.length !== keyLengthBytes)
    throw bad(`found ${bytes.length}${read === undefined ? '' : `, read as ${read.spelling}`}`);
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

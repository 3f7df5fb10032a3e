import { createHmac, createSecretKey } from 'node:crypto';
import { SvcError } from '../errors.ts';

/** `HASH(<base64 of HMAC-SHA-256>)` with the salt, as UTF-8, for its key. Throws `SVC_PROTECT_NO_SALT` for an empty salt. */
export function createHasher(salt: string | Uint8Array): (plain: string) => string {
  // An empty key would be accepted by Node, and the hashes of low-entropy values could be looked up by anybody.
  if (salt.length === 0) throw new SvcError('SVC_PROTECT_NO_SALT', 'PII hash salt must not be empty');
  const key = createSecretKey(typeof salt === 'string' ? Buffer.from(salt) : salt);
  return (plain) => `HASH(${createHmac('sha256', key).update(plain).digest('base64')})`;
}

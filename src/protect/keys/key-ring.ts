import { SvcError } from '../../ground/errors.ts';
import type { EncryptionKey } from './cipher-text.ts';
import { checkKeyId } from './key-id.ts';
import { KeyCounter, type KeyUseOptions } from './key-use.ts';
import { toSecretKey } from './secret-key.ts';

/** Id of the key in `svc.pii.crypto.default-key`. */
export const defaultKeyId = 'default';

/** A key that is configured rather than fetched. */
export interface ConfiguredKey {
  readonly id: string;
  /** 32 bytes, or their Base64. */
  readonly key: string | Uint8Array;
  /**
   * `primary`: encrypts the fields whose rule names no key. `decrypt`: opens what it once encrypted, and encrypts nothing.
   * Neither: encrypts the fields whose rule names it. A key that stands alone is primary.
   */
  readonly status?: 'primary' | 'decrypt' | undefined;
}

/** Keys by id. To rotate, add a new primary and leave the old key as `decrypt` for as long as its ciphertexts live. */
export interface KeyRing {
  /** Primary first. */
  readonly all: readonly EncryptionKey[];
  /** Throws `SVC_PROTECT_NO_KEY` without a primary, `SVC_PROTECT_KEY_UNKNOWN` for other ids than the configured ones. */
  forEncryption(keyId: string | undefined): EncryptionKey;
  /** As `forEncryption`, for one value, which is counted. Throws `SVC_PROTECT_KEY_USED_UP` after 2^32 of them. */
  take(keyId: string | undefined): EncryptionKey;
  find(keyId: string): EncryptionKey | undefined;
}

interface RingKey extends EncryptionKey {
  readonly status: ConfiguredKey['status'];
  readonly counter: KeyCounter;
}

/** Throws for a bad id, an id used twice, two primaries or a key of another length than 32 bytes. */
export function createKeyRing(configured: readonly ConfiguredKey[], use: KeyUseOptions = {}): KeyRing {
  const keys = new Map<string, RingKey>();
  for (const { id, key, status } of configured) {
    if (keys.has(checkKeyId(id))) throw badList(`the id "${id}" stands there twice`);
    const alone = configured.length === 1 && status === undefined;
    const counter = new KeyCounter(id, use);
    keys.set(id, { id, key: toSecretKey(key), status: alone ? 'primary' : status, counter });
  }
  const primaries = [...keys.values()].filter(({ status }) => status === 'primary');
  if (primaries.length > 1) throw badList(`it has ${primaries.length} primary keys`);
  const [primary] = primaries;

  function forEncryption(keyId: string | undefined): RingKey {
    if (keyId === undefined) {
      if (primary === undefined) throw notConfigured();
      return primary;
    }
    const key = keys.get(keyId);
    if (key === undefined || key.status === 'decrypt')
      throw new SvcError(
        'SVC_PROTECT_KEY_UNKNOWN',
        key === undefined
          ? `no encryption key with the id "${checkKeyId(keyId)}" is configured`
          : `the key "${keyId}" is for decryption only`,
      );
    return key;
  }

  return {
    all: [...primaries, ...[...keys.values()].filter((key) => key !== primary)],
    find: (keyId) => keys.get(keyId),

    forEncryption(keyId) {
      const key = forEncryption(keyId);
      key.counter.check();
      return key;
    },

    take(keyId) {
      const key = forEncryption(keyId);
      key.counter.count();
      return key;
    },
  };
}

export function notConfigured(): SvcError {
  return new SvcError(
    'SVC_PROTECT_NO_KEY',
    'PII encryption key is not configured; set PII_ENCRYPTION_KEY to the Base64 of 32 random bytes',
  );
}

function badList(why: string): SvcError {
  return new SvcError('SVC_PROTECT_KEY_LIST', `the list of encryption keys cannot be used: ${why}`);
}

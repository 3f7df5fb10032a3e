import type { KeyObject } from 'node:crypto';
import { createDataKeys, type EventCalls } from './data-keys.ts';
import { createEncryptionKeys, type EncryptionKeys } from './encryption-keys.ts';
import { type KeyCacheOptions, keyCacheSettings } from './key-cache-options.ts';
import { createKeyCalls } from './key-calls.ts';
import { type KeyProvider, keyProviderError } from './key-provider.ts';

/**
 * The two caches in front of a key provider: keys that encrypt, and data keys that were decrypted. Both have a TTL and a
 * maximum size, evict their oldest entry, and ask for one key once at a time. The provider is asked for a key to encrypt with
 * once per TTL, whatever the load, and again after failures, 1 s to 30 s later.
 */
export interface KeyCache extends EncryptionKeys {
  /** A data key out of a ciphertext: see `DataKeys`. */
  dataKey(keyIds: readonly string[], encryptedKey: Uint8Array, event?: EventCalls): Promise<KeyObject>;
  /**
   * Forgets every key at once, answers under way included, and fetches those that encrypt anew; resolves when that has
   * succeeded or failed. Until then encryption is refused, so use it for a key that must not be used any more; ordinary
   * rotation needs nothing, as each key is replaced after its TTL.
   */
  invalidateAll(): Promise<void>;
}

export function createKeyCache(provider: KeyProvider, options: KeyCacheOptions = {}): KeyCache {
  const settings = keyCacheSettings(options);
  const calls = createKeyCalls();
  const encryption = createEncryptionKeys(provider, settings, calls);
  const decryption = provider.supportsEnvelopeEncryption
    ? createDataKeys(provider, settings, calls)
    : undefined;

  return {
    ...encryption,

    async dataKey(keyIds, encryptedKey, event) {
      if (decryption !== undefined) return decryption.dataKey(keyIds, encryptedKey, event);
      throw keyProviderError(
        'SVC_PROTECT_KEY_REFUSED',
        `the key provider ${provider.name} cannot decrypt data keys`,
      );
    },

    async invalidateAll() {
      decryption?.invalidateAll();
      await encryption.invalidateAll();
    },

    close() {
      decryption?.invalidateAll();
      encryption.close();
    },
  };
}

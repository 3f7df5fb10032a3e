import { checkKeyId } from './key-id.ts';
import { keyProviderError, type StaticKeyProvider } from './key-provider.ts';
import { type ConfiguredKey, createKeyRing } from './key-ring.ts';

/**
 * Keys at hand as a key provider, for code that takes one: in tests and in development, in the place of a key service.
 * Throws for a bad id, an id used twice or a key of another length than 32 bytes.
 */
export function createStaticKeyProvider(keys: readonly Omit<ConfiguredKey, 'status'>[]): StaticKeyProvider {
  const ring = createKeyRing(keys.map(({ id, key }) => ({ id, key })));
  return {
    name: 'static',
    supportsEnvelopeEncryption: false,
    async getKey(keyId) {
      const found = ring.find(checkKeyId(keyId));
      if (found !== undefined) return found.key.export();
      throw keyProviderError('SVC_PROTECT_KEY_REFUSED', `no key with the id "${keyId}" was given`);
    },
  };
}

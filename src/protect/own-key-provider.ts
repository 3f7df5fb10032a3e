import { inTime } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { ownParts } from '../ground/own-parts.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  keyProviderError,
  type StaticKeyProvider,
} from './keys/key-provider.ts';

const providers = ownParts<KeyProvider>({
  registration: 'registerKeyProvider',
  reserved: ['aws', 'vault'],
  code: 'SVC_PROTECT_KEY_PROVIDER',
});

const longestMs = 10_000;

/**
 * Adds a key provider of the application, for `svc.pii.kms.type: <name>` with `svc.pii.kms.enabled: true`. Events with fields
 * to encrypt are refused until it is registered, so register it at the start of the application. In a configuration in code,
 * commands (`svc decrypt`) find it as well. Returns a function that removes it.
 * @throws SvcError `SVC_PROTECT_KEY_PROVIDER` for an invalid or taken name, and for an object that is not a provider
 */
export function registerKeyProvider(name: string, provider: KeyProvider): () => void {
  const { supportsEnvelopeEncryption, generateDataKey, decryptDataKey, getKey } = (provider ??
    {}) as Partial<EnvelopeKeyProvider> & Partial<StaticKeyProvider>;
  const needed = supportsEnvelopeEncryption ? [generateDataKey, decryptDataKey] : [getKey];
  if (!needed.every((method) => typeof method === 'function'))
    throw new SvcError(
      'SVC_PROTECT_KEY_PROVIDER',
      'registerKeyProvider: a provider needs supportsEnvelopeEncryption: true with generateDataKey() and decryptDataKey(), or supportsEnvelopeEncryption: false with getKey()',
    );
  return providers.register(name, provider);
}

/** The provider of that name, which may be registered later. */
export function ownKeyProvider(name: string): KeyProvider {
  const found = <P extends KeyProvider>(): P => providers.get(name) as P;
  // The port limits the time of each call, but code of the application may not comply.
  const late = (): never => {
    throw keyProviderError(
      'SVC_PROTECT_KEY_UNAVAILABLE',
      `"${name}" has not answered within ${longestMs} ms`,
    );
  };
  const inLimit = <T>(ask: () => Promise<T>): Promise<T> =>
    inTime(ask(), { limitMs: longestMs, keepsAlive: false, late });
  const provider = {
    name,
    ready: async () => void (await providers.wait(name)),
    get supportsEnvelopeEncryption() {
      return providers.find(name)?.supportsEnvelopeEncryption ?? true;
    },
    generateDataKey: (keyId: string) =>
      inLimit(async () => found<EnvelopeKeyProvider>().generateDataKey(keyId)),
    decryptDataKey: (keyId: string, key: Uint8Array) =>
      inLimit(async () => found<EnvelopeKeyProvider>().decryptDataKey(keyId, key)),
    getKey: (keyId: string) => inLimit(async () => found<StaticKeyProvider>().getKey(keyId)),
    watch: (onChange: () => void) => providers.find(name)?.watch?.(onChange) ?? (() => {}),
    close: async () => providers.find(name)?.close?.(),
  };
  return provider as KeyProvider;
}

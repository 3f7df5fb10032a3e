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
 * Adds a key provider of the application's own, for `svc.pii.kms.type: <name>` with `svc.pii.kms.enabled: true`. Until it is
 * registered, events with fields to encrypt are refused, so do it before the first one: at the start of the application, or in
 * a configuration in code, where commands (`svc decrypt`) find it as well. Returns the way to take it out again.
 *
 * @throws SvcError `SVC_PROTECT_KEY_PROVIDER` for a name that is taken or none, and for what is no provider.
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
  // Each call of the port ends by itself; of another's code that is not certain.
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

import { inTime } from '../../ground/clock.ts';
import { type ErrorCode, SvcError } from '../../ground/errors.ts';
import { ownParts } from '../../ground/own-parts.ts';

/** A key that encrypts values, with its encrypted form that only the key service can decrypt. */
export interface DataKey {
  /** 32 bytes. The caller owns it and overwrites it with zeros after creating the key object. */
  readonly plaintext: Uint8Array;
  /** 1 to 32767 bytes, opaque. Part of every ciphertext made with this key. */
  readonly encryptedKey: Uint8Array;
}

interface KeyProviderBase {
  /** For messages and health: `aws-kms`, `vault-transit`, … */
  readonly name: string;
  /**
   * Optional: resolves when the provider can be called; until then it may not know what it supports. Rejects like the calls.
   */
  ready?(): Promise<void>;
  /**
   * Optional: calls `onChange` when the provider's credentials have changed and a retry is worthwhile. Returns a function that
   * ends this.
   */
  watch?(onChange: () => void): () => void;
  /** Ends connections and timers. Calls in flight may fail or succeed. May be called twice. */
  close?(): Promise<void>;
}

/** Envelope encryption: the key service generates data keys, and decrypts them for a reader. */
export interface EnvelopeKeyProvider extends KeyProviderBase {
  readonly supportsEnvelopeEncryption: true;
  generateDataKey(keyId: string): Promise<DataKey>;
  /** 32 bytes, owned by the caller. `keyId` is the only key that may have encrypted this one. */
  decryptDataKey(keyId: string, encryptedKey: Uint8Array): Promise<Uint8Array>;
}

/** A store of the keys themselves. */
export interface StaticKeyProvider extends KeyProviderBase {
  readonly supportsEnvelopeEncryption: false;
  /** The current version of the key: 32 bytes, owned by the caller. */
  getKey(keyId: string): Promise<Uint8Array>;
}

/**
 * PORT: the source of keys. A provider does not cache and hardly retries. The key cache calls it at most once per TTL and key,
 * never concurrently for the same key, and backs off after failures. Calls for different keys may be concurrent. Each call must
 * end within some seconds.
 *
 * `keyId` is a logical name of letters, digits, underscores and hyphens, checked before the call. The provider maps it to the
 * name in its service.
 *
 * Rejects with an `SvcError` named `KeyProviderException`, without `cause`. The message holds no key, token, response body or
 * payload value:
 * - `SVC_PROTECT_KEY_UNAVAILABLE`: a temporary failure (network, timeout, throttled, sealed). Retried soon.
 * - `SVC_PROTECT_KEY_REFUSED`: an operator must act (access denied, disabled, pending deletion, no such key).
 * - `SVC_PROTECT_DECRYPT_FAILED`: the encrypted data key is damaged, or was made by another key or context.
 */
export type KeyProvider = EnvelopeKeyProvider | StaticKeyProvider;

export function keyProviderError(code: ErrorCode, message: string): SvcError {
  return new SvcError(code, message, { name: 'KeyProviderException' });
}

/** An error as the port specifies it. Errors of other code are replaced, as their text may hold anything. */
export function toProviderError(error: unknown, provider: string): SvcError {
  if (error instanceof SvcError) return error;
  return keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', `the key provider ${provider} failed unexpectedly`);
}

/** A key that could not be requested might have been the right one, so that error precedes "no key opens it". */
export function mostTelling(errors: readonly SvcError[]): SvcError {
  const of = (code: string) => errors.find((error) => error.code === code);
  return (of('SVC_PROTECT_KEY_UNAVAILABLE') ??
    of('SVC_PROTECT_KEY_REFUSED') ??
    of('SVC_PROTECT_DECRYPT_FAILED') ??
    errors[0]) as SvcError;
}

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

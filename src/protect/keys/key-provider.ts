import { type ErrorCode, SvcError } from '../../ground/errors.ts';

/** A key that encrypts values, beside the form of it that only the key service can turn back. */
export interface DataKey {
  /** 32 bytes. Belongs to the caller, who overwrites it with zeros as soon as it has made its key object. */
  readonly plaintext: Uint8Array;
  /** 1 to 32767 bytes, opaque. Stands in every ciphertext made with this key. */
  readonly encryptedKey: Uint8Array;
}

interface KeyProviderBase {
  /** For messages and health: `aws-kms`, `vault-transit`, … */
  readonly name: string;
  /** Optional: resolves when it can be asked; until then it may not know what it supports. Rejects as its calls do. */
  ready?(): Promise<void>;
  /** Optional: calls `onChange` when what it signs in with has changed, so that a new try is worth it. Returns the way to end that. */
  watch?(onChange: () => void): () => void;
  /** Ends connections and timers. Calls under way may still fail or succeed. May be called twice. */
  close?(): Promise<void>;
}

/** Envelope encryption: the key service makes data keys, and decrypts them again for a reader. */
export interface EnvelopeKeyProvider extends KeyProviderBase {
  readonly supportsEnvelopeEncryption: true;
  generateDataKey(keyId: string): Promise<DataKey>;
  /** 32 bytes, which belong to the caller. `keyId` is the only key that may have encrypted this one. */
  decryptDataKey(keyId: string, encryptedKey: Uint8Array): Promise<Uint8Array>;
}

/** A store that holds the keys themselves. */
export interface StaticKeyProvider extends KeyProviderBase {
  readonly supportsEnvelopeEncryption: false;
  /** 32 bytes, which belong to the caller. The current version of the key. */
  getKey(keyId: string): Promise<Uint8Array>;
}

/**
 * PORT: where keys come from. A provider caches nothing and retries next to nothing: the key cache asks it at most once per
 * TTL and key, never twice at once for the same key, and waits longer each time after a failure. Calls for different keys may
 * run at once. Each call ends by itself after some seconds, whatever the service does.
 *
 * `keyId` is a logical name (letters, digits, underscore, hyphen; checked before the call); the provider maps it to what its
 * service calls it.
 *
 * Rejects with an `SvcError` named `KeyProviderException`, without `cause`; its message holds no key, token, answer body or
 * payload value:
 * - `SVC_PROTECT_KEY_UNAVAILABLE`: not now (network, timeout, throttled, sealed). Asked again soon.
 * - `SVC_PROTECT_KEY_REFUSED`: not before somebody acts (access denied, disabled, pending deletion, no such key).
 * - `SVC_PROTECT_DECRYPT_FAILED`: the encrypted data key is damaged, or another key or context made it.
 */
export type KeyProvider = EnvelopeKeyProvider | StaticKeyProvider;

export function keyProviderError(code: ErrorCode, message: string): SvcError {
  return new SvcError(code, message, { name: 'KeyProviderException' });
}

/** What a provider threw, as the port promises it: an error from elsewhere is not passed on, as its text may hold anything. */
export function toProviderError(error: unknown, provider: string): SvcError {
  if (error instanceof SvcError) return error;
  return keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', `the key provider ${provider} failed unexpectedly`);
}

import { SvcError } from '../errors.ts';
import { type CipherText, contextOf, parseCipherText, splitEnvelope } from '../protect/cipher-text.ts';
import { checkSealed, decryptText } from '../protect/encrypt.ts';
import { createKeyCache, type KeyCache } from '../protect/key-cache.ts';
import type { KeyCacheOptions } from '../protect/key-cache-options.ts';
import { checkKeyId } from '../protect/key-id.ts';
import type { KeyProvider } from '../protect/key-provider.ts';
import { type ConfiguredKey, createKeyRing, type KeyRing, notConfigured } from '../protect/key-ring.ts';

export interface DecryptionKeyOptions {
  /** Keys that are at hand, whatever their status: the present one and those before it. */
  readonly keys?: readonly ConfiguredKey[] | undefined;
  /** Where the other keys come from. */
  readonly provider?: KeyProvider | undefined;
  /** The only keys that the provider is asked for; needed with a provider. */
  readonly keyIds?: readonly string[] | undefined;
  readonly cache?: KeyCacheOptions | undefined;
}

/** Where a ciphertext was found: format v1 opens nowhere else. */
export interface CipherPlace {
  readonly eventType: string;
  /** `customer.email`, `items[*].phone` */
  readonly path: string;
}

/** Everything that can open ciphertexts. Make it once and use it for all envelopes, as it remembers decrypted data keys. */
export interface DecryptionKeys {
  /**
   * The text in one `ENC(…)`. Rejects with an `SvcError` that holds nothing of it: `SVC_PROTECT_CIPHERTEXT` (damaged),
   * `SVC_PROTECT_KEY_UNKNOWN` (names a key that is not here), `SVC_PROTECT_DECRYPT_FAILED` (no key here opens it here),
   * `SVC_PROTECT_KEY_UNAVAILABLE` (try again later), `SVC_PROTECT_KEY_REFUSED`.
   */
  open(cipherText: string, place: CipherPlace): Promise<string>;
  /** Ends background work and the provider. */
  close(): Promise<void>;
}

/** Throws what is wrong with the keys: length, Base64, ids, none at all. */
export function createDecryptionKeys(options: DecryptionKeyOptions): DecryptionKeys {
  const { keys = [], provider, keyIds = [] } = options;
  if (keys.length === 0 && provider === undefined) throw notConfigured();
  if (provider !== undefined && keyIds.length === 0)
    throw new SvcError('SVC_PROTECT_KEY_LIST', `the key provider ${provider.name} needs the list keyIds`);
  const ring = createKeyRing(keys);
  const ids = keyIds.map(checkKeyId);
  const cache = provider && createKeyCache(provider, options.cache);

  return {
    async open(text, { eventType, path }) {
      const cipherText = parseCipherText(text);
      return cipherText.keyId === undefined
        ? openWithAny(cipherText.bytes, ring, ids, provider, cache)
        : openV1(
            cipherText as Named,
            contextOf(cipherText.keyId, eventType, path),
            ring,
            ids,
            provider,
            cache,
          );
    },

    async close() {
      cache?.close();
      await provider?.close?.();
    },
  };
}

type Named = CipherText & { readonly keyId: string };

async function openV1(
  { keyId, bytes }: Named,
  context: Buffer,
  ring: KeyRing,
  ids: readonly string[],
  provider: KeyProvider | undefined,
  cache: KeyCache | undefined,
): Promise<string> {
  const known = ring.find(keyId);
  if (known !== undefined) return decryptText(known.key, bytes, context);
  if (provider !== undefined && cache !== undefined && ids.includes(keyId))
    return openWithProvider(bytes, keyId, context, provider, cache);
  // The found id is not shown: anybody can write one into a field that is no ciphertext.
  const here = [...ring.all.map(({ id }) => id), ...ids].join(', ');
  throw new SvcError('SVC_PROTECT_KEY_UNKNOWN', `the ciphertext names a key that is none of these: ${here}`);
}

/** Format v0 names no key, so each is tried. Only the integrity check says which one it is. */
async function openWithAny(
  bytes: Buffer,
  ring: KeyRing,
  ids: readonly string[],
  provider: KeyProvider | undefined,
  cache: KeyCache | undefined,
): Promise<string> {
  checkSealed(bytes);
  const errors: SvcError[] = [];
  for (const { key } of ring.all) {
    try {
      return decryptText(key, bytes, undefined);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  for (const keyId of provider === undefined ? [] : ids) {
    try {
      return await openWithProvider(bytes, keyId, undefined, provider as KeyProvider, cache as KeyCache);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  throw mostTelling(errors);
}

async function openWithProvider(
  bytes: Buffer,
  keyId: string,
  context: Buffer | undefined,
  provider: KeyProvider,
  cache: KeyCache,
): Promise<string> {
  if (!provider.supportsEnvelopeEncryption)
    return decryptText((await cache.fetch(keyId)).key, bytes, context);
  const { encryptedKey, sealed } = splitEnvelope(bytes);
  checkSealed(sealed);
  return decryptText(await cache.dataKey(keyId, encryptedKey), sealed, context);
}

/** A key that could not be asked might have been the right one: that comes before "no key opens it". */
function mostTelling(errors: readonly SvcError[]): SvcError {
  const of = (code: string) => errors.find((error) => error.code === code);
  return (of('SVC_PROTECT_KEY_UNAVAILABLE') ??
    of('SVC_PROTECT_KEY_REFUSED') ??
    of('SVC_PROTECT_DECRYPT_FAILED') ??
    errors[0]) as SvcError;
}

import { SvcError } from '../ground/errors.ts';
import { readBoundedSync } from '../ground/files.ts';
import { optionsProblem } from '../ground/names.ts';
import {
  createKeyCache,
  type EventCalls,
  type KeyCache,
  type KeyCacheOptions,
  mostTelling,
} from '../protect/keys/key-cache.ts';
import type { KeyProvider } from '../protect/keys/key-provider.ts';
import {
  type CipherText,
  type ConfiguredKey,
  checkKeyId,
  checkSealed,
  contextOf,
  createKeyRing,
  decryptText,
  type KeyRing,
  notConfigured,
  parseCipherText,
  splitEnvelope,
} from '../protect/keys/key-ring.ts';

export type { EventCalls };

export interface DecryptionKeyOptions {
  /** Local keys of any status: the current one and its predecessors. */
  readonly keys?: readonly ConfiguredKey[] | undefined;
  /** The source of all other keys. */
  readonly provider?: KeyProvider | undefined;
  /** The only keys that are requested from the provider; required with a provider. */
  readonly keyIds?: readonly string[] | undefined;
  readonly cache?: KeyCacheOptions | undefined;
}

/** Where a ciphertext was found: format v1 opens nowhere else. */
export interface CipherPlace {
  readonly eventType: string;
  /** `customer.email`, `items[*].phone` */
  readonly path: string;
}

/** Opens ciphertexts. Create it once and use it for all envelopes, as it caches decrypted data keys. */
export interface DecryptionKeys {
  /**
   * The text in one `ENC(…)`. Rejects with an `SvcError` that holds nothing of it: `SVC_PROTECT_CIPHERTEXT` (damaged),
   * `SVC_PROTECT_KEY_UNKNOWN` (names an unknown key), `SVC_PROTECT_DECRYPT_FAILED` (no known key opens it here),
   * `SVC_PROTECT_KEY_UNAVAILABLE` (retry later), `SVC_PROTECT_KEY_REFUSED`.
   * @param event the same object for all ciphertexts of one event: it limits the requests to a key service per event
   */
  open(cipherText: string, place: CipherPlace, event?: EventCalls): Promise<string>;
  /** Ends background work and the provider. */
  close(): Promise<void>;
}

const cacheNames: readonly (keyof KeyCacheOptions)[] = [
  ...(['ttlMs', 'maxStaleMs', 'maxEntries', 'maxMessages', 'clock', 'onFailure', 'onWorn'] as const),
];

/** @throws SvcError `SVC_CONSUMER_OPTIONS` */
export function checkOptions(of: string, options: unknown, names: readonly string[]): void {
  const problem = optionsProblem(options, names);
  if (problem !== undefined) throw new SvcError('SVC_CONSUMER_OPTIONS', `${of}: ${problem}`);
}

/** Throws an `SvcError` for invalid keys (length, Base64, ids), and if there is no key. */
export function createDecryptionKeys(options: DecryptionKeyOptions): DecryptionKeys {
  checkOptions('createDecryptionKeys', options, ['keys', 'provider', 'keyIds', 'cache']);
  if (options.cache !== undefined) checkOptions('createDecryptionKeys: cache', options.cache, cacheNames);
  const { keys = [], provider, keyIds = [] } = options;
  if (keys.length === 0 && provider === undefined) throw notConfigured();
  if (provider !== undefined && keyIds.length === 0)
    throw new SvcError('SVC_PROTECT_KEY_LIST', `the key provider ${provider.name} needs the list keyIds`);
  const ring = createKeyRing(keys);
  const ids = provider === undefined ? [] : keyIds.map(checkKeyId);
  const cache = provider && createKeyCache(provider, options.cache);

  const opener: Opener = { ring, ids, provider, cache };

  return {
    async open(text, { eventType, path }, event) {
      const cipherText = parseCipherText(text);
      return cipherText.keyId === undefined
        ? openWithAny(cipherText.bytes, opener, event)
        : openV1(cipherText as Named, contextOf(cipherText.keyId, eventType, path), opener, event);
    },

    async close() {
      cache?.close();
      await provider?.close?.();
    },
  };
}

interface Opener {
  readonly ring: KeyRing;
  /** The keys that may be requested from the provider. */
  readonly ids: readonly string[];
  readonly provider: KeyProvider | undefined;
  readonly cache: KeyCache | undefined;
}

type Named = CipherText & { readonly keyId: string };

async function openV1(
  { keyId, bytes }: Named,
  context: Buffer,
  opener: Opener,
  event: EventCalls | undefined,
): Promise<string> {
  const { ring, ids } = opener;
  const known = ring.find(keyId);
  if (known !== undefined) return decryptText(known.key, bytes, context);
  if (ids.includes(keyId)) return openWithProvider(bytes, [keyId], context, opener, event);
  // The found id is not shown: any text may stand in a field that is not a ciphertext.
  const here = [...ring.all.map(({ id }) => id), ...ids].join(', ');
  throw new SvcError(
    'SVC_PROTECT_KEY_UNKNOWN',
    `the ciphertext needs a key that is not among these: ${here}`,
  );
}

/** Format v0 names no key, so each is tried. Only the integrity check tells which one fits. */
async function openWithAny(bytes: Buffer, opener: Opener, event: EventCalls | undefined): Promise<string> {
  checkSealed(bytes);
  const errors: SvcError[] = [];
  for (const { key } of opener.ring.all) {
    try {
      return decryptText(key, bytes, undefined);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  if (opener.provider !== undefined) {
    try {
      return await openWithProvider(bytes, opener.ids, undefined, opener, event);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  throw mostTelling(errors);
}

async function openWithProvider(
  bytes: Buffer,
  keyIds: readonly string[],
  context: Buffer | undefined,
  { provider, cache }: Opener,
  event: EventCalls | undefined,
): Promise<string> {
  if (provider === undefined || cache === undefined) throw notConfigured();
  if (!provider.supportsEnvelopeEncryption) return openWithStored(bytes, keyIds, context, cache);
  const { encryptedKey, sealed } = splitEnvelope(bytes);
  checkSealed(sealed);
  return decryptText(await cache.dataKey(keyIds, encryptedKey, event), sealed, context);
}

async function openWithStored(
  bytes: Buffer,
  keyIds: readonly string[],
  context: Buffer | undefined,
  cache: KeyCache,
): Promise<string> {
  const errors: SvcError[] = [];
  for (const keyId of keyIds) {
    try {
      return decryptText((await cache.fetch(keyId)).key, bytes, context);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  throw mostTelling(errors);
}

/**
 * Keys from a JSON file: `{ "keys": [{ "id": "2027-01", "key": "<Base64 of 32 bytes>" }] }`. Throws `SVC_CONSUMER_KEYS_FILE`
 * without any content, which JSON errors would quote.
 */
export function readKeysFile(path: string): readonly ConfiguredKey[] {
  let document: { keys?: unknown };
  try {
    document = JSON.parse(readBoundedSync(path).toString()) as { keys?: unknown };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw unusable(path, code === undefined ? 'it is not valid JSON' : `it cannot be read (${code})`);
  }
  const keys = document?.keys;
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isKey))
    throw unusable(path, 'it must be { "keys": [{ "id": "…", "key": "<Base64>" }, …] }');
  return keys;
}

function isKey(value: unknown): value is ConfiguredKey {
  const { id, key, status } = (value ?? {}) as Record<string, unknown>;
  const isStatus = status === undefined || status === 'primary' || status === 'decrypt';
  return typeof id === 'string' && typeof key === 'string' && isStatus;
}

function unusable(path: string, why: string): SvcError {
  return new SvcError('SVC_CONSUMER_KEYS_FILE', `the keys file "${path}" cannot be used: ${why}`);
}

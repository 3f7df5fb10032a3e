// keys/: encryption and hashes: keys, where they come from, and how long they are good.

import { SvcError } from '../../ground/errors.ts';
import type { Sealer } from '../sealer.ts';
import { type CipherFormat, type EncryptionKey, writeCipherText } from './cipher-text.ts';
import type { EncryptionKeyState } from './encryption-keys.ts';
import { createHasher } from './hash.ts';
import { createKeyCache, type KeyCache } from './key-cache.ts';
import { defaultMaxEntries, type KeyCacheOptions } from './key-cache-options.ts';
import { checkKeyId } from './key-id.ts';
import type { KeyProvider } from './key-provider.ts';
import { type ConfiguredKey, createKeyRing, notConfigured, defaultKeyId as ownDefault } from './key-ring.ts';
import type { KeyUseOptions } from './key-use.ts';

export interface SealerOptions {
  /** Keys from the configuration. Not beside a provider: which of the two encrypts must never be a guess. */
  readonly keys?: readonly ConfiguredKey[] | undefined;
  readonly provider?: KeyProvider | undefined;
  /** Of a provider: the key of fields whose rule names none. Without it such a field is an error. */
  readonly defaultKeyId?: string | undefined;
  /** Ids that rules encrypt with, `undefined` for the default key: what `ready` makes sure of. Default: none. */
  readonly keyIds?: readonly (string | undefined)[] | undefined;
  /** Default: `v0`. */
  readonly format?: CipherFormat | undefined;
  /** Key of the hashes, not empty. Without it `hash` throws. */
  readonly salt?: string | Uint8Array | undefined;
  readonly cache?: KeyCacheOptions | undefined;
  /** Of configured keys. */
  readonly use?: KeyUseOptions | undefined;
}

export interface ManagedSealer extends Sealer {
  /**
   * Resolves when every key of `keyIds` is there. Rejects with `SVC_PROTECT_NO_KEY`, `SVC_PROTECT_KEY_UNKNOWN`, or the key
   * provider's error; keys of a provider are then still tried for in the background, until `close`.
   */
  ready(): Promise<void>;
  /** Keys of a provider that were asked for; empty for configured keys, which are always there. */
  keyStates(): readonly EncryptionKeyState[];
  /** For health: whether fields whose rule names this key can be encrypted now. Asks nobody. */
  keyState(keyId: string | undefined): KeyState;
  /** See `KeyCache`. Nothing to do for configured keys. */
  invalidateKeys(): Promise<void>;
  /** Ends the background work and the provider. Nothing can be encrypted with a provider's keys any more. */
  close(): Promise<void>;
}

/** A key that rules need. */
export interface KeyState {
  /** `configuration`, or the name of the key provider. */
  readonly provider: string;
  readonly keyId: string;
  readonly usable: boolean;
  /** Why it is not usable, or could not be replaced: one line, without any key in it. */
  readonly error: string | undefined;
}

/**
 * Encrypts and hashes single values. What is wrong with the keys themselves (length, Base64, ids, two primaries, an empty
 * salt) is thrown here; what is missing, by `ready`, and by each call that would need it.
 */
export function createSealer(options: SealerOptions): ManagedSealer {
  const { provider, format = 'v0' } = options;
  const keyIds = [...new Set(options.keyIds)];
  const keys = provider === undefined ? fromRing(options) : fromProvider(provider, keyIds, options);
  const hasher = options.salt === undefined ? undefined : createHasher(options.salt);

  return {
    encrypt: (plain, field) => writeCipherText(keys.current(field.keyId), plain, format, field),

    hash(plain) {
      if (hasher !== undefined) return hasher(plain);
      throw new SvcError('SVC_PROTECT_NO_SALT', 'PII hash salt is not configured; set PII_HASH_SALT');
    },

    ready: async () => void (await Promise.all(keyIds.map(keys.fetch))),
    keyStates: () => keys.cache?.states() ?? [],
    keyState: keys.state,
    invalidateKeys: async () => keys.cache?.invalidateAll(),
    close: keys.close,
  };
}

interface Keys {
  readonly cache: KeyCache | undefined;
  current(keyId: string | undefined): EncryptionKey;
  fetch(keyId: string | undefined): Promise<EncryptionKey>;
  state(keyId: string | undefined): KeyState;
  close(): Promise<void>;
}

function fromRing({ keys = [], use }: SealerOptions): Keys {
  const ring = createKeyRing(keys, use);
  return {
    cache: undefined,
    current: ring.take,
    fetch: async (keyId) => ring.forEncryption(keyId),
    state(keyId) {
      const provider = 'configuration';
      try {
        return { provider, keyId: ring.forEncryption(keyId).id, usable: true, error: undefined };
      } catch (error) {
        return { provider, keyId: keyId ?? ownDefault, usable: false, error: (error as Error).message };
      }
    },
    close: async () => {},
  };
}

function fromProvider(
  provider: KeyProvider,
  keyIds: readonly (string | undefined)[],
  { keys = [], defaultKeyId, cache: cacheOptions = {} }: SealerOptions,
): Keys {
  if (keys.length > 0)
    throw new SvcError(
      'SVC_PROTECT_KEY_LIST',
      `the list of encryption keys cannot be used: keys come from ${provider.name} already`,
    );
  if (defaultKeyId !== undefined) checkKeyId(defaultKeyId);
  for (const keyId of keyIds) if (keyId !== undefined) checkKeyId(keyId);
  // A key that rules name must never be evicted by another one.
  const maxEntries = Math.max(cacheOptions.maxEntries ?? defaultMaxEntries, keyIds.length);
  const cache = createKeyCache(provider, { ...cacheOptions, maxEntries });

  const idOf = (keyId: string | undefined): string => {
    const id = keyId ?? defaultKeyId;
    if (id === undefined) throw notConfigured();
    return id;
  };
  return {
    cache,
    current: (keyId) => cache.current(idOf(keyId)),
    fetch: async (keyId) => cache.fetch(idOf(keyId)),
    state(wanted) {
      const keyId = wanted ?? defaultKeyId;
      const known = cache.states().find((state) => state.keyId === keyId);
      return {
        provider: provider.name,
        keyId: keyId ?? ownDefault,
        usable: known?.usable ?? false,
        error: known === undefined ? 'it has not been fetched yet' : known.error,
      };
    },
    async close() {
      cache.close();
      await provider.close?.();
    },
  };
}

// keys/: encryption and hashing: keys, their sources, and their lifetime.

import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import { defaultKeyId as ownDefault } from '../../ground/event-fields.ts';
import { logger } from '../../observe/logger.ts';
import type { Sealer } from '../sealer.ts';
import { createKeyCache, type EncryptionKeyState, type KeyCache, type KeyCacheOptions } from './key-cache.ts';
import type { KeyProvider } from './key-provider.ts';
import {
  type ConfiguredKey,
  checkKeyId,
  cipherTexts,
  createKeyRing,
  type EncryptionKey,
  notConfigured,
  toSecretKey,
} from './key-ring.ts';

export { configuredKeys } from './key-ring.ts';

interface SealerOptions {
  /** Keys from the configuration. Never together with a provider: which one encrypts would be ambiguous. */
  readonly keys?: readonly ConfiguredKey[] | undefined;
  readonly provider?: KeyProvider | undefined;
  /** With a provider: the key for fields whose rule names no key. Without it such a field is an error. */
  readonly defaultKeyId?: string | undefined;
  /** Ids that rules encrypt with; `undefined` is the default key. `ready` checks them. Default: `[]`. */
  readonly keyIds?: readonly (string | undefined)[] | undefined;
  /** Default: `v0`. */
  readonly format?: 'v0' | 'v1' | undefined;
  /** Key of the hashes, not empty. Without it `hash` throws. */
  readonly salt?: string | Uint8Array | undefined;
  readonly cache?: KeyCacheOptions | undefined;
  /** For configured keys. */
  readonly use?: Pick<KeyCacheOptions, 'maxMessages' | 'onWorn'>;
}

interface ManagedSealer extends Sealer {
  /**
   * Resolves when every key of `keyIds` is available. Rejects with `SVC_PROTECT_NO_KEY`, `SVC_PROTECT_KEY_UNKNOWN`, or the key
   * provider's error. The keys of a provider are then retried in the background until `close`.
   */
  ready(): Promise<void>;
  /** Keys that were requested from a provider; empty for configured keys. */
  keyStates(): readonly EncryptionKeyState[];
  /** For health: whether fields whose rule names this key can be encrypted now. Sends no request. */
  keyState(keyId: string | undefined): KeyState;
  /** The ids of configured keys that may encrypt and are not random. */
  weakKeys(): readonly string[];
  /** See `KeyCache`. No effect on configured keys. */
  invalidateKeys(): Promise<void>;
  /** Ends the background work and the provider. The keys of a provider then encrypt nothing. */
  close(): Promise<void>;
}

interface KeyState {
  /** `configuration`, or the name of the key provider. */
  readonly provider: string;
  readonly keyId: string;
  readonly usable: boolean;
  /** One line: why the key is not usable or could not be replaced. Holds no key. */
  readonly error: string | undefined;
}

/**
 * Encrypts and hashes single values. Throws for invalid keys (length, Base64, ids, two primaries, an empty salt). Missing keys
 * are reported by `ready` and by each call that needs one.
 */
export function createSealer(options: SealerOptions): ManagedSealer {
  const { provider, format = 'v0' } = options;
  const keyIds = [...new Set(options.keyIds)];
  const keys = provider === undefined ? fromRing(options) : fromProvider(provider, keyIds, options);
  const hasher = options.salt === undefined ? undefined : createHasher(options.salt);

  return {
    encrypt: (plain, field) => cipherTexts.write(keys.current(field.keyId), plain, format, field),

    hash(plain) {
      if (hasher !== undefined) return hasher(plain);
      throw new SvcError('SVC_PROTECT_NO_SALT', 'PII hash salt is not configured; set PII_HASH_SALT');
    },

    ready: async () => void (await Promise.all(keyIds.map(keys.fetch))),
    keyStates: () => keys.cache?.states() ?? [],
    keyState: keys.state,
    weakKeys: keys.weak,
    invalidateKeys: async () => keys.cache?.invalidateAll(),
    close: keys.close,
  };
}

interface Keys {
  readonly cache: KeyCache | undefined;
  current(keyId: string | undefined): EncryptionKey;
  fetch(keyId: string | undefined): Promise<EncryptionKey>;
  state(keyId: string | undefined): KeyState;
  weak(): readonly string[];
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
    weak: () =>
      keys
        .filter(({ key, status }) => status !== 'decrypt' && isWeak(toSecretKey(key).export()))
        .map(({ id }) => id),
    close: async () => {},
  };
}

function fromProvider(
  provider: KeyProvider,
  keyIds: readonly (string | undefined)[],
  { keys = [], defaultKeyId, cache: cacheOptions }: SealerOptions,
): Keys {
  if (keys.length > 0)
    throw new SvcError(
      'SVC_PROTECT_KEY_LIST',
      `the list of encryption keys cannot be used: keys come from ${provider.name} already`,
    );
  if (defaultKeyId !== undefined) checkKeyId(defaultKeyId);
  for (const keyId of keyIds) if (keyId !== undefined) checkKeyId(keyId);
  // A key that rules name must never be evicted.
  const cache = createKeyCache(provider, cacheOptions, keyIds.length);

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
    weak: () => [],
    async close() {
      cache.close();
      await provider.close?.();
    },
  };
}

const blockBytes = 64;
/** Values of more UTF-16 units go through `createHmac`: their bytes might not fit the buffer. */
const longestShort = 256;

/** `HASH(<base64 of HMAC-SHA-256>)`, keyed with the salt as UTF-8. Throws `SVC_PROTECT_NO_SALT` for an empty salt. */
function createHasher(salt: string | Uint8Array): (plain: string) => string {
  // Node accepts an empty key, but then anyone could look up the hashes of low-entropy values.
  if (salt.length === 0) throw new SvcError('SVC_PROTECT_NO_SALT', 'PII hash salt must not be empty');
  const bytes = typeof salt === 'string' ? Buffer.from(salt) : salt;
  // At the first hash: `node:crypto` takes 8 ms to load, and most services hash nothing.
  let short: ((plain: string) => string) | undefined;
  return (plain) => {
    short ??= shortHmac(bytes);
    return `HASH(${plain.length > longestShort ? longHmac(bytes, plain) : short(plain)})`;
  };
}

function longHmac(key: Uint8Array, plain: string): string {
  return nodeCrypto().createHmac('sha256', key).update(plain).digest('base64');
}

/** HMAC (RFC 2104) from two one-shot hashes: half the time of an `Hmac` object per value. */
function shortHmac(key: Uint8Array): (plain: string) => string {
  const { hash } = nodeCrypto();
  const block = Buffer.alloc(blockBytes);
  block.set(key.length > blockBytes ? hash('sha256', key, 'buffer') : key);
  const inner = Buffer.alloc(blockBytes + longestShort * 3);
  const outer = Buffer.alloc(blockBytes + 32);
  for (const [index, byte] of block.entries()) {
    inner[index] = byte ^ 0x36;
    outer[index] = byte ^ 0x5c;
  }
  // One view per length, reused.
  const views: Buffer[] = [];
  return (plain) => {
    const length = inner.write(plain, blockBytes, 'utf8');
    views[length] ??= inner.subarray(0, blockBytes + length);
    outer.write(hash('sha256', views[length], 'binary'), blockBytes, 'latin1');
    inner.fill(0, blockBytes, blockBytes + length);
    return hash('sha256', outer, 'base64');
  };
}

/** Public, so hashes made with it can be reversed by trying values. For development only. */
const defaultSalt = 'svc-default-pii-hash-salt';
const shortBytes = 16;

interface SaltOptions {
  readonly salt: string | undefined;
  /** Refuses the default salt. Callers set it when `NODE_ENV` is `production`. */
  readonly requireSalt: boolean;
}

/**
 * The salt; `undefined` if an empty one, or the default, is refused. `announce` logs a warning about it, once: call it when
 * something is hashed.
 */
export function openSalt({ salt, requireSalt }: SaltOptions) {
  const isRefused = salt === undefined ? requireSalt : salt === '';
  const value = isRefused ? undefined : (salt ?? defaultSalt);
  let warning = isRefused ? undefined : aboutSalt(salt);
  return {
    value,
    announce() {
      if (warning !== undefined) logger.warn(`SECURITY: ${warning}`);
      warning = undefined;
    },
  };
}

function aboutSalt(salt: string | undefined): string | undefined {
  if (salt === undefined)
    return 'no svc.pii.crypto.salt (PII_HASH_SALT): hashes are made with the public default salt and can be reversed';
  const bytes = Buffer.byteLength(salt);
  if (bytes < shortBytes)
    return `svc.pii.crypto.salt has ${bytes} bytes; use ${shortBytes} random bytes or more`;
  return isWeak(Buffer.from(salt))
    ? 'svc.pii.crypto.salt is not random and can be guessed: generate a random one'
    : undefined;
}

/**
 * Whether a key or salt cannot be random: equal bytes, a repeated short text, or counting up. Chance produces this in less than
 * one of 100,000 salts of 32 random hexadecimal digits, and never in 32 random bytes.
 */
function isWeak(bytes: Uint8Array): boolean {
  const { length } = bytes;
  return new Set(bytes).size <= length / 4 || repeats(bytes) || maxEqualSteps(bytes) >= (length - 1) * 0.75;
}

/** The unit is at most half the length; the last one may be cut off. */
function repeats(bytes: Uint8Array): boolean {
  for (let unit = 1; unit <= bytes.length / 2; unit++)
    if (bytes.every((byte, index) => byte === bytes[index % unit])) return true;
  return false;
}

/** How often the most frequent step from one byte to the next occurs. */
function maxEqualSteps(bytes: Uint8Array): number {
  const counts = new Map<number, number>();
  for (let index = 1; index < bytes.length; index++) {
    const step = ((bytes[index] as number) - (bytes[index - 1] as number)) & 0xff;
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  return Math.max(0, ...counts.values());
}

import type { KeyObject } from 'node:crypto';
import { SvcError } from '../errors.ts';
import { type KeyCacheSettings, retryDelayMs } from './key-cache-options.ts';
import type { KeyCalls } from './key-calls.ts';
import { checkKeyId } from './key-id.ts';
import type { EnvelopeKeyProvider } from './key-provider.ts';
import { toProviderError } from './key-provider-error.ts';
import { toSecretKey } from './secret-key.ts';
import { singleFlight } from './single-flight.ts';

/** The half of the key cache that decryption uses: data keys that the provider has already turned back. */
export interface DataKeys {
  /** Rejects with the provider's error; the same one for a while, so that damaged data does not become a load on the service. */
  dataKey(keyId: string, encryptedKey: Uint8Array): Promise<KeyObject>;
  invalidateAll(): void;
}

interface Answer {
  readonly key: KeyObject | SvcError;
  readonly expiresAtMs: number;
}

export function createDataKeys(
  provider: EnvelopeKeyProvider,
  { clock, ttlMs, maxEntries }: KeyCacheSettings,
  calls: KeyCalls,
): DataKeys {
  /** In the order of their age: the oldest one is evicted first. */
  const answers = new Map<string, Answer>();
  const flight = singleFlight<KeyObject | SvcError>();
  let epoch = 0;

  async function ask(keyId: string, encryptedKey: Uint8Array): Promise<KeyObject | SvcError> {
    try {
      const plaintext = await provider.decryptDataKey(keyId, encryptedKey);
      try {
        return toSecretKey(plaintext);
      } finally {
        plaintext.fill(0);
      }
    } catch (error) {
      return toProviderError(error, provider.name);
    }
  }

  function store(name: string, key: KeyObject | SvcError): void {
    answers.delete(name);
    if (answers.size >= maxEntries) answers.delete(answers.keys().next().value as string);
    answers.set(name, { key, expiresAtMs: clock.monotonic() + lifeMs(key) });
  }

  function lifeMs(key: KeyObject | SvcError): number {
    if (!(key instanceof SvcError) || key.code === 'SVC_PROTECT_DECRYPT_FAILED') return ttlMs;
    return retryDelayMs(1, key.code !== 'SVC_PROTECT_KEY_UNAVAILABLE');
  }

  return {
    async dataKey(keyId, encryptedKey) {
      const name = `${checkKeyId(keyId)}:${Buffer.from(encryptedKey).toString('base64')}`;
      const known = answers.get(name);
      const isFresh = known !== undefined && clock.monotonic() <= known.expiresAtMs;
      const asked = epoch;
      const key = isFresh
        ? known.key
        : await flight(`${asked}:${name}`, () =>
            calls(async () => {
              const answer = await ask(keyId, encryptedKey);
              if (asked === epoch) store(name, answer);
              return answer;
            }),
          );
      if (key instanceof SvcError) throw key;
      return key;
    },

    invalidateAll() {
      epoch++;
      answers.clear();
    },
  };
}

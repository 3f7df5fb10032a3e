import type { KeyObject } from 'node:crypto';
import { nodeCrypto } from '../../ground/builtins.ts';
import type { Clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { type KeyCacheSettings, retryDelayMs } from './key-cache-options.ts';
import { type KeyCalls, singleFlight, takeTurns } from './key-calls.ts';
import { checkKeyId } from './key-id.ts';
import { type EnvelopeKeyProvider, keyProviderError, toProviderError } from './key-provider.ts';
import { toSecretKey } from './secret-key.ts';

/** The half of the key cache that decryption uses: data keys that the provider has already turned back. */
interface DataKeys {
  /**
   * The data key, turned back by the first of the keys that can. Rejects with the provider's most telling error; with the same
   * one for a while, so that damaged data does not become a load on the service; and with `SVC_PROTECT_KEY_UNAVAILABLE`
   * where too many were not its own.
   *
   * @param event counts what one event has caused, which has a bound of its own
   */
  dataKey(keyIds: readonly string[], encryptedKey: Uint8Array, event?: EventCalls): Promise<KeyObject>;
  invalidateAll(): void;
}

/** Data keys in one event that the service has been asked about, and did not know. */
export interface EventCalls {
  failed: number;
}

interface Answer<T> {
  readonly answer: T;
  readonly expiresAtMs: number;
}

/** Failures that are remembered. Apart from the keys, so that a flood of forged ones drives no real one out. */
const mostFailures = 1_000;
const mostCallsAtOnce = 8;

export function createDataKeys(
  provider: EnvelopeKeyProvider,
  { clock, ttlMs, maxEntries }: KeyCacheSettings,
  calls: KeyCalls,
): DataKeys {
  const keys = new Map<string, Answer<KeyObject>>();
  const failures = new Map<string, Answer<SvcError>>();
  const flight = singleFlight<KeyObject | SvcError>();
  const turns = takeTurns(mostCallsAtOnce);
  const unknown = limitUnknownKeys(clock);
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

  /** In the order of their age: the oldest one is evicted first. */
  function store<T>(answers: Map<string, Answer<T>>, most: number, name: string, answer: T, lifeMs: number) {
    answers.delete(name);
    if (answers.size >= most) answers.delete(answers.keys().next().value as string);
    answers.set(name, { answer, expiresAtMs: clock.monotonic() + lifeMs });
  }

  function known<T>(answers: Map<string, Answer<T>>, name: string): T | undefined {
    const found = answers.get(name);
    return found !== undefined && clock.monotonic() <= found.expiresAtMs ? found.answer : undefined;
  }

  /** Asks for each key whose answer is not remembered, one after the other. */
  async function find(keyIds: readonly string[], encryptedKey: Uint8Array, name: string, asked: number) {
    if (!unknown.take()) return notAsked(provider.name);
    const errors: SvcError[] = [];
    for (const keyId of keyIds) {
      const failedName = failureName(keyId, name);
      const remembered = known(failures, failedName);
      const answer = remembered ?? (await ask(keyId, encryptedKey));
      if (!(answer instanceof SvcError)) {
        unknown.giveBack();
        if (asked === epoch) store(keys, maxEntries, `${keyId}:${name}`, answer, ttlMs);
        return answer;
      }
      errors.push(answer);
      if (asked === epoch && remembered === undefined)
        store(failures, mostFailures, failedName, answer, lifeMs(answer));
    }
    return mostTelling(errors);
  }

  function lifeMs({ code }: SvcError): number {
    if (code === 'SVC_PROTECT_DECRYPT_FAILED') return ttlMs;
    return retryDelayMs(1, code !== 'SVC_PROTECT_KEY_UNAVAILABLE');
  }

  /** Where the answer of every key is remembered. */
  function failureOf(keyIds: readonly string[], name: string): SvcError | undefined {
    const errors = keyIds.flatMap((keyId) => known(failures, failureName(keyId, name)) ?? []);
    return errors.length === keyIds.length ? mostTelling(errors) : undefined;
  }

  return {
    async dataKey(keyIds, encryptedKey, event) {
      const name = Buffer.from(encryptedKey).toString('base64');
      for (const keyId of keyIds) {
        const key = known(keys, `${checkKeyId(keyId)}:${name}`);
        if (key !== undefined) return key;
      }
      const error = failureOf(keyIds, name);
      if (error !== undefined) throw error;
      if (event !== undefined && event.failed >= unknownKeys.perEvent) throw notAsked(provider.name);
      const asked = epoch;
      const answer = await flight(`${asked}:${keyIds.join()}:${name}`, () =>
        turns(() => calls(() => find(keyIds, encryptedKey, name, asked))),
      );
      if (!(answer instanceof SvcError)) return answer;
      if (event !== undefined) event.failed++;
      throw answer;
    },

    invalidateAll() {
      epoch++;
      keys.clear();
      failures.clear();
    },
  };
}

/** Of forged ones, which may be 32 KB long, only so much is kept that they can be told apart. */
function failureName(keyId: string, name: string): string {
  return nodeCrypto().createHash('sha256').update(`${keyId}:${name}`).digest('base64');
}

/** A key that could not be asked might have been the right one: that comes before "no key opens it". */
export function mostTelling(errors: readonly SvcError[]): SvcError {
  const of = (code: string) => errors.find((error) => error.code === code);
  return (of('SVC_PROTECT_KEY_UNAVAILABLE') ??
    of('SVC_PROTECT_KEY_REFUSED') ??
    of('SVC_PROTECT_DECRYPT_FAILED') ??
    errors[0]) as SvcError;
}

function notAsked(provider: string): SvcError {
  return keyProviderError(
    'SVC_PROTECT_KEY_UNAVAILABLE',
    `${provider} is not asked about this data key for now, as it did not know too many of those before it`,
  );
}

/**
 * How many data keys that a key service turns out not to know it is asked about: foreign data must not become a load on it. So
 * many at once, and one more after each `everyMs`. Those that it does know cost nothing.
 */
export const unknownKeys = { atOnce: 50, everyMs: 200, perEvent: 8 };

interface UnknownKeys {
  /** `false`: the service must not be asked now. Otherwise it counts, until it is given back. */
  take(): boolean;
  /** The service knew the key. */
  giveBack(): void;
}

function limitUnknownKeys(clock: Clock): UnknownKeys {
  const { atOnce, everyMs } = unknownKeys;
  let taken = 0;
  let countedAtMs = clock.monotonic();
  return {
    take() {
      const passed = Math.floor((clock.monotonic() - countedAtMs) / everyMs);
      taken = Math.max(0, taken - passed);
      countedAtMs += passed * everyMs;
      if (taken >= atOnce) return false;
      taken++;
      return true;
    },
    giveBack() {
      taken = Math.max(0, taken - 1);
    },
  };
}

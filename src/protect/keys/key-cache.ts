import { AsyncResource } from 'node:async_hooks';
import type { KeyObject } from 'node:crypto';
import { nodeCrypto } from '../../ground/builtins.ts';
import { backoffMs, clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/otel-api.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  keyProviderError,
  mostTelling,
  toProviderError,
} from './key-provider.ts';
import {
  checkKeyId,
  cipherTexts,
  type EncryptionKey,
  KeyCounter,
  type KeyUse,
  toSecretKey,
} from './key-ring.ts';

/**
 * The two caches in front of a key provider: keys that encrypt, and decrypted data keys. Both have a TTL and a maximum size,
 * evict the oldest entry, and request a key once at a time. A key to encrypt with is requested once per TTL, whatever the load.
 * After failures it is retried with a backoff of 1 s to 30 s.
 */
export interface KeyCache extends EncryptionKeys {
  /** A data key from a ciphertext: see `DataKeys`. */
  dataKey(keyIds: readonly string[], encryptedKey: Uint8Array, event?: EventCalls): Promise<KeyObject>;
  /**
   * Forgets every key at once, requests in flight included, and fetches those that encrypt again. Resolves when that has
   * succeeded or failed; encryption is refused until then. Use it for a compromised key. Ordinary rotation does not need it:
   * each key is replaced after its TTL.
   */
  invalidateAll(): Promise<void>;
}

/** `needed`: how many keys must never be evicted, whatever `maxEntries` is. */
export function createKeyCache(provider: KeyProvider, options: KeyCacheOptions = {}, needed = 0): KeyCache {
  const settings = keyCacheSettings(options, needed);
  const calls = createKeyCalls();
  const encryption = createEncryptionKeys(provider, settings, calls);
  const decryption = provider.supportsEnvelopeEncryption
    ? createDataKeys(provider, settings, calls)
    : undefined;

  return {
    ...encryption,

    async dataKey(keyIds, encryptedKey, event) {
      if (decryption !== undefined) return decryption.dataKey(keyIds, encryptedKey, event);
      throw keyProviderError(
        'SVC_PROTECT_KEY_REFUSED',
        `the key provider ${provider.name} cannot decrypt data keys`,
      );
    },

    async invalidateAll() {
      decryption?.invalidateAll();
      await encryption.invalidateAll();
    },

    close() {
      decryption?.invalidateAll();
      encryption.close();
    },
  };
}

export interface KeyCacheOptions {
  /** How long a key is used before it is replaced in the background. Default: 300000 ms. */
  readonly ttlMs?: number | undefined;
  /** How much longer a key encrypts while it cannot be replaced, which is safe. Default: `ttlMs`. */
  readonly maxStaleMs?: number | undefined;
  /** Keys in each of the two caches. Default: 100. */
  readonly maxEntries?: number | undefined;
  /** Values that one key may encrypt: a data key is then replaced, a stored key refused. Default and maximum: 2^32. */
  readonly maxMessages?: number | undefined;
  /** Called at the first of consecutive failures to get a key to encrypt with. */
  readonly onFailure?: ((failure: KeyFailure) => void) | undefined;
  /** Called for a stored key that has encrypted half of its maximum, and again at the maximum. */
  readonly onWorn?: ((use: KeyUse) => void) | undefined;
}

interface KeyFailure {
  readonly keyId: string;
  readonly error: SvcError;
  /** An older key stays in use for a while. */
  readonly usable: boolean;
}

type KeyCacheSettings = { readonly [K in keyof KeyCacheOptions]-?: NonNullable<KeyCacheOptions[K]> };

function keyCacheSettings(options: KeyCacheOptions, needed: number): KeyCacheSettings {
  const ttlMs = options.ttlMs ?? 300_000;
  return {
    ttlMs,
    maxStaleMs: options.maxStaleMs ?? ttlMs,
    maxEntries: Math.max(options.maxEntries ?? 100, needed),
    maxMessages: Math.min(options.maxMessages ?? KeyCounter.max, KeyCounter.max),
    onFailure: options.onFailure ?? (() => {}),
    onWorn: options.onWorn ?? (() => {}),
  };
}

const firstRetryMs = 1_000;
const longestRetryMs = 30_000;
/** The retry delay while events are refused for lack of the key. */
const refusingRetryMs = 2_000;

/** Doubles with each consecutive failure. The longest delay at once for a failure that an operator must fix. */
function retryDelayMs(failures: number, refused: boolean): number {
  return refused ? longestRetryMs : backoffMs(failures, firstRetryMs, longestRetryMs);
}

/** The half of the key cache for encryption: keys are ready before they are needed. */
interface EncryptionKeys {
  /** Synchronous, for the caller's path. Throws `SVC_PROTECT_KEY_UNAVAILABLE` if the key is missing or too old. */
  current(keyId: string): EncryptionKey;
  /**
   * The key, fetched if it is missing; from then on it is replaced in the background. Rejects with the provider's error, and
   * with the same one until the next attempt is due.
   */
  fetch(keyId: string): Promise<EncryptionKey>;
  /** For health: one entry per key. */
  states(): readonly EncryptionKeyState[];
  invalidateAll(): Promise<void>;
  close(): void;
}

export interface EncryptionKeyState {
  readonly keyId: string;
  /** `undefined`: there is no key. */
  readonly ageMs: number | undefined;
  readonly usable: boolean;
  /** Code of the last attempt, if it failed. */
  readonly failure: string | undefined;
  /** Message of that failure: one line without any key, token or value. */
  readonly error: string | undefined;
}

interface Entry {
  readonly encryption: EncryptionKey;
  readonly fetchedAtMs: number;
  /** Values that a data key has encrypted. */
  messages: number;
  /** Of a stored key, which is the same one after each fetch, so fetching cannot limit its use. */
  readonly counter: KeyCounter | undefined;
}

interface Failure {
  readonly error: SvcError;
  readonly count: number;
  retryAtMs: number;
  /** The earliest time that a refused event may bring the next attempt forward to. */
  readonly refusingAtMs: number;
}

function createEncryptionKeys(
  provider: KeyProvider,
  settings: KeyCacheSettings,
  calls: KeyCalls,
): EncryptionKeys {
  const { ttlMs, maxStaleMs, maxEntries, maxMessages } = settings;
  /** Oldest first: that one is evicted. */
  const entries = new Map<string, Entry>();
  const failures = new Map<string, Failure>();
  const timers = new Map<string, NodeJS.Timeout>();
  /** Use counters of stored keys. They outlive the cache entries. */
  const counted = new Map<string, { readonly key: EncryptionKey['key']; readonly counter: KeyCounter }>();
  const flight = singleFlight<EncryptionKey>();
  let epoch = 0;
  let closed = false;
  /** Set while a key is unavailable. */
  let endWatch: (() => void) | undefined;

  async function ask(keyId: string): Promise<EncryptionKey> {
    if (provider.ready !== undefined) await provider.ready();
    if (!provider.supportsEnvelopeEncryption)
      return { id: keyId, key: toOwnKey(await provider.getKey(keyId)) };
    const { plaintext, encryptedKey } = await provider.generateDataKey(keyId);
    return { id: keyId, key: toOwnKey(plaintext), head: cipherTexts.headOf(encryptedKey) };
  }

  /** The answer to a request that was sent before `invalidateAll` is discarded, and the request repeated. */
  async function fetchAnew(keyId: string): Promise<EncryptionKey> {
    try {
      for (;;) {
        const asked = epoch;
        const encryption = await ask(keyId);
        if (asked !== epoch && !closed) continue;
        store(keyId, encryption);
        return encryption;
      }
    } catch (reason) {
      const error = toProviderError(reason, provider.name);
      noteFailure(keyId, error);
      throw error;
    }
  }

  function load(keyId: string): Promise<EncryptionKey> {
    return flight(keyId, () => calls(() => fetchAnew(keyId)));
  }

  function store(keyId: string, encryption: EncryptionKey): void {
    if (closed) return;
    failures.delete(keyId);
    if (failures.size === 0) stopWatching();
    if (!entries.delete(keyId) && entries.size >= maxEntries) forget(entries.keys().next().value as string);
    const counter = provider.supportsEnvelopeEncryption ? undefined : counterOf(encryption);
    entries.set(keyId, { encryption, fetchedAtMs: clock.monotonic(), messages: 0, counter });
    loadIn(keyId, ttlMs);
  }

  function counterOf({ id, key }: EncryptionKey): KeyCounter {
    const before = counted.get(id);
    const counter = before?.key.equals(key) === true ? before.counter : new KeyCounter(id, settings);
    counted.set(id, { key, counter });
    return counter;
  }

  function noteFailure(keyId: string, error: SvcError): void {
    if (closed) return;
    const count = (failures.get(keyId)?.count ?? 0) + 1;
    const delayMs = retryDelayMs(count, error.code !== 'SVC_PROTECT_KEY_UNAVAILABLE');
    const nowMs = clock.monotonic();
    failures.set(keyId, { error, count, retryAtMs: nowMs + delayMs, refusingAtMs: nowMs + refusingRetryMs });
    loadIn(keyId, delayMs);
    endWatch ??= provider.watch?.(() => {
      for (const failed of failures.keys()) loadQuietly(failed);
    });
    if (count > 1) return;
    settings.onFailure({ keyId, error, usable: isUsable(entries.get(keyId), clock.monotonic()) });
  }

  /** Runs whether the key is used or not: an idle service needs a key for its next event. */
  function loadIn(keyId: string, delayMs: number): void {
    clearTimeout(timers.get(keyId));
    const timer = setTimeout(() => loadQuietly(keyId), delayMs);
    timers.set(keyId, timer.unref());
  }

  function loadQuietly(keyId: string): void {
    // Not awaited; `failures` keeps the reason.
    load(keyId).catch(() => {});
  }

  /** On the hot path: the timer may be late, or a data key may reach its maximum early. */
  function loadIfDue(keyId: string): void {
    const failure = failures.get(keyId);
    if (!closed && (failure === undefined || clock.monotonic() >= failure.retryAtMs)) loadQuietly(keyId);
  }

  /** An event was refused: brings the next attempt forward. */
  function loadSoon(keyId: string): void {
    const failure = failures.get(keyId);
    if (failure === undefined || failure.retryAtMs <= failure.refusingAtMs) return;
    failure.retryAtMs = failure.refusingAtMs;
    loadIn(keyId, Math.max(0, failure.refusingAtMs - clock.monotonic()));
  }

  function stopWatching(): void {
    endWatch?.();
    endWatch = undefined;
  }

  function forget(keyId: string): void {
    entries.delete(keyId);
    clearTimeout(timers.get(keyId));
    timers.delete(keyId);
  }

  function isUsable(entry: Entry | undefined, nowMs: number): entry is Entry {
    if (entry === undefined || entry.messages >= maxMessages) return false;
    return nowMs - entry.fetchedAtMs <= ttlMs + maxStaleMs;
  }

  return {
    current(keyId) {
      const entry = entries.get(keyId);
      const nowMs = clock.monotonic();
      const due = !entry || nowMs - entry.fetchedAtMs > ttlMs || entry.messages >= maxMessages * 0.8;
      if (due) loadIfDue(checkKeyId(keyId));
      if (!isUsable(entry, nowMs)) {
        loadSoon(keyId);
        throw unavailable(keyId, failures.get(keyId)?.error);
      }
      if (entry.counter === undefined) entry.messages++;
      else entry.counter.count();
      return entry.encryption;
    },

    async fetch(keyId) {
      const [entry, nowMs] = [entries.get(checkKeyId(keyId)), clock.monotonic()];
      if (isUsable(entry, nowMs)) return entry.encryption;
      const failure = failures.get(keyId);
      if (failure !== undefined && nowMs < failure.retryAtMs) throw failure.error;
      return load(keyId);
    },

    states: () =>
      [...new Set([...entries.keys(), ...failures.keys()])].map((keyId) => {
        const [entry, nowMs] = [entries.get(keyId), clock.monotonic()];
        const ageMs = entry && nowMs - entry.fetchedAtMs;
        const { code: failure, message: error } = failures.get(keyId)?.error ?? {};
        const usable = isUsable(entry, nowMs) && entry.counter?.isUsedUp !== true;
        return { keyId, ageMs, usable, failure, error };
      }),

    async invalidateAll() {
      epoch++;
      const keyIds = [...entries.keys()];
      for (const keyId of keyIds) forget(keyId);
      await Promise.allSettled(keyIds.map(load));
    },

    close() {
      closed = true;
      stopWatching();
      for (const keyId of timers.keys()) clearTimeout(timers.get(keyId));
      for (const map of [timers, entries, failures, counted]) map.clear();
    },
  };
}

function toOwnKey(plaintext: Uint8Array): EncryptionKey['key'] {
  try {
    return toSecretKey(plaintext);
  } finally {
    plaintext.fill(0);
  }
}

function unavailable(keyId: string, last: SvcError | undefined): SvcError {
  const why = last === undefined ? 'it has not been fetched yet' : `${last.message} (${last.code})`;
  return keyProviderError(
    'SVC_PROTECT_KEY_UNAVAILABLE',
    `no usable encryption key "${keyId}" at the moment: ${why}`,
  );
}

/** The half of the key cache for decryption: data keys that the provider has decrypted. */
interface DataKeys {
  /**
   * The data key, decrypted by the first key that can. Rejects with the provider's most specific error, and repeats it for a
   * while, so that damaged data puts no load on the key service. Rejects with `SVC_PROTECT_KEY_UNAVAILABLE` after too many
   * unknown keys.
   * @param event counts the requests that one event causes, which are limited per event
   */
  dataKey(keyIds: readonly string[], encryptedKey: Uint8Array, event?: EventCalls): Promise<KeyObject>;
  invalidateAll(): void;
}

/** Data keys of one event that the service was asked for and did not know. */
export interface EventCalls {
  failed: number;
}

interface Answer<T> {
  readonly answer: T;
  readonly expiresAtMs: number;
}

/** Remembered failures. Kept apart from the keys, so that a flood of forged ones evicts no real one. */
const maxFailures = 1_000;
const maxCallsAtOnce = 8;

function createDataKeys(
  provider: EnvelopeKeyProvider,
  { ttlMs, maxEntries }: KeyCacheSettings,
  calls: KeyCalls,
): DataKeys {
  const keys = new Map<string, Answer<KeyObject>>();
  const failures = new Map<string, Answer<SvcError>>();
  const flight = singleFlight<KeyObject | SvcError>();
  const turns = takeTurns(maxCallsAtOnce);
  const unknown = limitUnknownKeys();
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

  /** Oldest first: that one is evicted. */
  function store<T>(answers: Map<string, Answer<T>>, max: number, name: string, answer: T, lifeMs: number) {
    answers.delete(name);
    if (answers.size >= max) answers.delete(answers.keys().next().value as string);
    answers.set(name, { answer, expiresAtMs: clock.monotonic() + lifeMs });
  }

  function known<T>(answers: Map<string, Answer<T>>, name: string): T | undefined {
    const found = answers.get(name);
    return found !== undefined && clock.monotonic() <= found.expiresAtMs ? found.answer : undefined;
  }

  /** Requests each key whose answer is not remembered, one after the other. */
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
        store(failures, maxFailures, failedName, answer, lifeMs(answer));
    }
    return mostTelling(errors);
  }

  function lifeMs({ code }: SvcError): number {
    if (code === 'SVC_PROTECT_DECRYPT_FAILED') return ttlMs;
    return retryDelayMs(1, code !== 'SVC_PROTECT_KEY_UNAVAILABLE');
  }

  /** `undefined` unless the answer of every key is remembered. */
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

/** A hash: forged keys may be 32 KB long. */
function failureName(keyId: string, name: string): string {
  return nodeCrypto().createHash('sha256').update(`${keyId}:${name}`).digest('base64');
}

function notAsked(provider: string): SvcError {
  return keyProviderError(
    'SVC_PROTECT_KEY_UNAVAILABLE',
    `${provider} is not asked about this data key for now, because too many earlier data keys were unknown`,
  );
}

/**
 * A token bucket of requests for data keys that the service turns out not to know: foreign data must not become load. `atOnce`
 * tokens, one more per `everyMs`. Known keys cost nothing.
 */
const unknownKeys = { atOnce: 50, everyMs: 200, perEvent: 8 };

interface UnknownKeys {
  /** `false`: the service must not be asked now. Otherwise takes a token, which `giveBack` returns. */
  take(): boolean;
  /** The service knew the key. */
  giveBack(): void;
}

function limitUnknownKeys(): UnknownKeys {
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

type KeyCalls = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Requests to a key service are svc's own work: not captured, no spans. They run outside the calling request, whose context
 * their connections and timers would otherwise retain.
 */
function createKeyCalls(): KeyCalls {
  const outside = new AsyncResource('svc keys');
  return (work) => outside.runInAsyncScope(() => isolate(work));
}

/** One call per key at a time; concurrent callers share its result. */
function singleFlight<T>(): (key: string, work: () => Promise<T>) => Promise<T> {
  const inFlight = new Map<string, Promise<T>>();
  return (key, work) => {
    let flight = inFlight.get(key);
    if (flight === undefined) {
      flight = work().finally(() => inFlight.delete(key));
      inFlight.set(key, flight);
    }
    return flight;
  };
}

/** Limits concurrency; first in, first out. */
function takeTurns(maxAtOnce: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let inFlight = 0;
  return async (work) => {
    if (inFlight === maxAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else inFlight++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) inFlight--;
      else next();
    }
  };
}

import type { SvcError } from '../../ground/errors.ts';
import { type EncryptionKey, toHead } from './cipher-text.ts';
import { type KeyCacheSettings, refusingRetryMs, retryDelayMs } from './key-cache-options.ts';
import { type KeyCalls, singleFlight } from './key-calls.ts';
import { checkKeyId } from './key-id.ts';
import { type KeyProvider, keyProviderError, toProviderError } from './key-provider.ts';
import { KeyCounter } from './key-use.ts';
import { toSecretKey } from './secret-key.ts';

/** The half of the key cache that encryption uses: keys that are there when they are needed. */
export interface EncryptionKeys {
  /** Synchronous, for the caller's path. Throws `SVC_PROTECT_KEY_UNAVAILABLE` when there is no key or only one too old. */
  current(keyId: string): EncryptionKey;
  /**
   * The key, fetched if there is none yet; from then on it is replaced in the background. Rejects with the provider's error,
   * and with the same one until the next attempt is due.
   */
  fetch(keyId: string): Promise<EncryptionKey>;
  /** For health: one line a key. */
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
  /** Its message: one line, no key, token or value in it. */
  readonly error: string | undefined;
}

interface Entry {
  readonly encryption: EncryptionKey;
  readonly fetchedAtMs: number;
  /** Of a data key. */
  messages: number;
  /** Of a key out of a store, which is the same one after each fetch: only what is made anew can be limited by fetching. */
  readonly counter: KeyCounter | undefined;
}

interface Failure {
  readonly error: SvcError;
  readonly count: number;
  retryAtMs: number;
  /** The soonest that a refused event may bring that forward to. */
  readonly refusingAtMs: number;
}

export function createEncryptionKeys(
  provider: KeyProvider,
  settings: KeyCacheSettings,
  calls: KeyCalls,
): EncryptionKeys {
  const { clock, ttlMs, maxStaleMs, maxEntries, maxMessages } = settings;
  /** In the order of their age: the oldest one is evicted first. */
  const entries = new Map<string, Entry>();
  const failures = new Map<string, Failure>();
  const timers = new Map<string, NodeJS.Timeout>();
  /** What keys out of a store have encrypted, whether they were forgotten meanwhile or not. */
  const counted = new Map<string, { readonly key: EncryptionKey['key']; readonly counter: KeyCounter }>();
  const flight = singleFlight<EncryptionKey>();
  let epoch = 0;
  let closed = false;
  /** While a key cannot be had. */
  let endWatch: (() => void) | undefined;

  async function ask(keyId: string): Promise<EncryptionKey> {
    if (provider.ready !== undefined) await provider.ready();
    if (!provider.supportsEnvelopeEncryption)
      return { id: keyId, key: toOwnKey(await provider.getKey(keyId)) };
    const { plaintext, encryptedKey } = await provider.generateDataKey(keyId);
    return { id: keyId, key: toOwnKey(plaintext), head: toHead(encryptedKey) };
  }

  /** An answer to a question asked before `invalidateAll` is thrown away, and the question asked again. */
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

  /** On its own clock, used or not: an idle service must have a key for its next event. */
  function loadIn(keyId: string, delayMs: number): void {
    clearTimeout(timers.get(keyId));
    const timer = setTimeout(() => loadQuietly(keyId), delayMs);
    timers.set(keyId, timer.unref());
  }

  function loadQuietly(keyId: string): void {
    // Nobody waits for it; `failures` keeps the reason.
    load(keyId).catch(() => {});
  }

  /** On the hot path: the timer may be late, or a data key may be used up before its time. */
  function loadIfDue(keyId: string): void {
    const failure = failures.get(keyId);
    if (!closed && (failure === undefined || clock.monotonic() >= failure.retryAtMs)) loadQuietly(keyId);
  }

  /** An event is refused: the next attempt is for it. */
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

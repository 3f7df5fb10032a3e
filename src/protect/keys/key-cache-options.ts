import { backoffMs, type Clock, systemClock } from '../../ground/clock.ts';
import type { SvcError } from '../../ground/errors.ts';
import { type KeyUse, mostMessages } from './key-use.ts';

export interface KeyCacheOptions {
  /** How long a key is used before it is replaced in the background. Default: 300000 ms. */
  readonly ttlMs?: number | undefined;
  /** How much longer a key encrypts while it cannot be replaced, which is safe. Default: `ttlMs`. */
  readonly maxStaleMs?: number | undefined;
  /** Keys in each of the two caches. Default: 100. */
  readonly maxEntries?: number | undefined;
  /** Values that one key may encrypt: a data key is replaced in time, one of a store refused. Default and maximum: 2^32. */
  readonly maxMessages?: number | undefined;
  readonly clock?: Clock | undefined;
  /** Told of the first failure in a row to get a key to encrypt with. Default: nobody. */
  readonly onFailure?: ((failure: KeyFailure) => void) | undefined;
  /** Told of a key of a store that has encrypted half of what it may, or all. Default: nobody. */
  readonly onWorn?: ((use: KeyUse) => void) | undefined;
}

export interface KeyFailure {
  readonly keyId: string;
  readonly error: SvcError;
  /** There is a key that goes on, for a while. */
  readonly usable: boolean;
}

export type KeyCacheSettings = { readonly [K in keyof KeyCacheOptions]-?: NonNullable<KeyCacheOptions[K]> };

export const defaultMaxEntries = 100;

export function keyCacheSettings(options: KeyCacheOptions): KeyCacheSettings {
  const ttlMs = options.ttlMs ?? 300_000;
  return {
    ttlMs,
    maxStaleMs: options.maxStaleMs ?? ttlMs,
    maxEntries: options.maxEntries ?? defaultMaxEntries,
    maxMessages: Math.min(options.maxMessages ?? mostMessages, mostMessages),
    clock: options.clock ?? systemClock,
    onFailure: options.onFailure ?? (() => {}),
    onWorn: options.onWorn ?? (() => {}),
  };
}

const firstRetryMs = 1_000;
const longestRetryMs = 30_000;
/** After a failure, while events are refused for want of the key: nobody keeps them. */
export const refusingRetryMs = 2_000;

/** Twice as long after each failure in a row; at once the longest where only a person can help. */
export function retryDelayMs(failures: number, refused: boolean): number {
  return refused ? longestRetryMs : backoffMs(failures, firstRetryMs, longestRetryMs);
}

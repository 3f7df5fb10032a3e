import { backoffMs } from '../../../ground/clock.ts';
import type { SendFailure } from '../../broker.ts';

export interface RetrySettings {
  readonly enabled: boolean;
  /** Tries after the first one, each after a wait. */
  readonly maxAttempts: number;
  readonly initialIntervalMs: number;
  readonly multiplier: number;
  readonly maxIntervalMs: number;
  /** Each wait is up to 20 % shorter or longer, so that many processes do not come back at once. */
  readonly jitter: boolean;
}

export interface RetryPolicy {
  /** Milliseconds to wait before the same batch is sent again; `undefined`: not again. */
  waitMs(retries: number, failure: SendFailure): number | undefined;
}

const jitterShare = 0.2;

/** Up to 20 % shorter or longer. `random`: 0 to below 1. */
export function spread(waitMs: number, random: () => number): number {
  return waitMs * (1 - jitterShare + 2 * jitterShare * random());
}

/** Waits of 1 s, 2 s, 4 s by default. An unknown outcome is retried as well: a duplicate is better than a loss. */
export function createRetryPolicy(settings: RetrySettings, random: () => number = Math.random): RetryPolicy {
  const { enabled, maxAttempts, initialIntervalMs, multiplier, maxIntervalMs, jitter } = settings;
  return {
    waitMs(retries, { kind }) {
      if (!enabled || retries >= maxAttempts || kind === 'fatal' || kind === 'too_large') return undefined;
      const wait = backoffMs(retries + 1, initialIntervalMs, maxIntervalMs, multiplier);
      return jitter ? spread(wait, random) : wait;
    },
  };
}

/** What the next tier is told about a send that was retried in vain. */
export function afterRetries(failure: SendFailure, retries: number): SendFailure {
  if (retries === 0) return failure;
  return { ...failure, message: `Failed to send message after ${retries} retries: ${failure.message}` };
}

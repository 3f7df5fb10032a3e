import type { Clock } from '../../ground/clock.ts';

/** A broker that is well answers in milliseconds. */
export const silentMs = 2_000;

/**
 * When the whole cluster was last silent: a question that any of its brokers could answer had no answer. Connections from
 * before that may be dead without a word, as where a machine or a network was lost, and whoever waits on one of them waits
 * for ever, long after the cluster is back.
 */
export interface Silence {
  /** Passes on what the question comes to. */
  notice<T>(question: Promise<T>): Promise<T>;
  /** On the monotonic clock. */
  lastAtMs(): number;
}

/** @param onSilent called each time */
export function createSilence(clock: Clock, onSilent: () => void): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question) {
      const timer = setTimeout(() => {
        lastAtMs = clock.monotonic();
        onSilent();
      }, silentMs).unref();
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    lastAtMs: () => lastAtMs,
  };
}

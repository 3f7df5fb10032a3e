import type { Clock } from '../../ground/clock.ts';

/** A broker that is well answers in milliseconds. */
export const silentMs = 2_000;

/**
 * When the whole cluster was last silent: a question that any of its brokers could answer had no answer. Connections from
 * before that may be dead without a word, as where a machine or a network was lost, and whoever waits on one of them waits
 * for ever, long after the cluster is back.
 */
export interface Silence {
  /** Passes on what the question comes to. `over`: it was answered over another connection. */
  notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T>;
  /** On the monotonic clock. */
  lastAtMs(): number;
}

/** @param onSilent called each time, and again every 2 s as long as there is no answer */
export function createSilence(clock: Clock, onSilent: () => void): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question, over) {
      let isNoticed = false;
      const timer = setInterval(() => {
        if (isNoticed && over?.aborted) return clearInterval(timer);
        isNoticed = true;
        lastAtMs = clock.monotonic();
        onSilent();
      }, silentMs).unref();
      try {
        return await question;
      } finally {
        clearInterval(timer);
      }
    },
    lastAtMs: () => lastAtMs,
  };
}

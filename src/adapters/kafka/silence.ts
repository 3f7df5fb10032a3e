import type { Clock } from '../../ground/clock.ts';

/** A broker that is well answers in milliseconds. */
export const silentMs = 2_000;

/**
 * When the whole cluster was last silent: a question that any of its brokers could answer had no answer, nor had any send, as over a
 * network that is only slow. Connections from
 * before that may be dead without a word, as where a machine or a network was lost, and whoever waits on one of them waits
 * for ever, long after the cluster is back.
 */
export interface Silence {
  /** Passes on what the question comes to. `over`: it was answered over another connection. */
  notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T>;
  /** On the monotonic clock. */
  lastAtMs(): number;
}

/**
 * @param onSilent called each time, and again every 2 s as long as there is no answer
 * @param heardAtMs when a send was last answered, on the monotonic clock
 */
export function createSilence(clock: Clock, onSilent: () => void, heardAtMs: () => number): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question, over) {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const leftMs = heardAtMs() + silentMs - nowMs;
        if (leftMs <= 0) {
          lastAtMs = nowMs;
          onSilent();
        }
        lookAfter(leftMs > 0 ? leftMs : silentMs);
      };
      const lookAfter = (delayMs: number): void => {
        timer = setTimeout(look, delayMs).unref();
      };
      lookAfter(silentMs);
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    lastAtMs: () => lastAtMs,
  };
}

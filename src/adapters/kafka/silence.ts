import type { Clock } from '../../ground/clock.ts';
import type { Answer } from './answer-times.ts';

/** A broker that is well answers in milliseconds. */
export const silentMs = 2_000;
/** Over the slowest network. */
export const longestSilentMs = 10_000;

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
 * @param heard what the last send was answered: nothing is heard for 2 s, and twice as long as that took, 10 s at most
 */
export function createSilence(clock: Clock, onSilent: () => void, heard: () => Answer | undefined): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question, over) {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const { atMs, tookMs } = heard() ?? { atMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
        const leftMs = atMs + Math.min(Math.max(silentMs, 2 * tookMs), longestSilentMs) - nowMs;
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

import { within } from '../../ground/clock.ts';

/** Counts what is under way, and keeps the process alive for it: the connections themselves do not. */
export interface WorkUnderWay {
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when nothing is under way, at `limitMs` at the latest. */
  idle(limitMs: number): Promise<void>;
  /** Nobody waits for what is under way now: it does not keep the process alive any more. */
  letGo(): void;
}

const farAwayMs = 2 ** 31 - 1;

export function createWorkUnderWay(): WorkUnderWay {
  let count = 0;
  let hold: NodeJS.Timeout | undefined;
  let onIdle: (() => void) | undefined;

  const end = () => {
    if (--count > 0) return;
    clearInterval(hold);
    hold = undefined;
    onIdle?.();
  };

  return {
    async run(work) {
      count++;
      hold ??= setInterval(() => {}, farAwayMs);
      try {
        return await work();
      } finally {
        end();
      }
    },
    async idle(limitMs) {
      if (count === 0) return;
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve;
      });
      await within(limitMs, idle);
    },
    letGo() {
      clearInterval(hold);
      hold = undefined;
    },
  };
}

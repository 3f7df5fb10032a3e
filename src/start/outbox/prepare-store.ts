import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { isPassing } from '../../outbox/store-error.ts';

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/** The tables of an outbox, looked at or made. */
export interface StorePreparation {
  /** Resolves when that was tried once, whatever came of it. */
  readonly tried: Promise<void>;
  /** It is not tried again. */
  stop(): void;
}

/** A database that is away is asked again until it answers: its tables may have to be made. What else is wrong is said once. */
export function prepareStore(store: Pick<OutboxStore, 'prepare'>, logger: Logger): StorePreparation {
  let isStopped = false;

  async function attempt(pauseMs: number): Promise<void> {
    try {
      await store.prepare();
    } catch (error) {
      if (isStopped) return;
      if (pauseMs === firstPauseMs) logger.error(`outbox: ${(error as Error).message}`);
      if (!isPassing(error)) return;
      setTimeout(() => {
        if (!isStopped) void attempt(Math.min(pauseMs * 2, longestPauseMs));
      }, pauseMs).unref();
    }
  }

  return {
    tried: isolate(() => attempt(firstPauseMs)),
    stop() {
      isStopped = true;
    },
  };
}

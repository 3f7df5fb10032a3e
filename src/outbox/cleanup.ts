import type { Clock } from '../ground/clock.ts';
import { type Logger, throttledLog } from '../observe/logger.ts';
import type { OutboxStore } from './outbox-store.ts';
import type { RelaySettings } from './relay/partition-sends.ts';
import { createWakeup, reasonOf } from './relay/signal.ts';

/** From one look for old rows to the next; the first comes a while after the start, which has enough to do. */
export const cleanupIntervalMs = 600_000;
export const firstCleanupMs = 60_000;
/** Rows that are deleted at once: short transactions, which hold up nobody for long. */
export const cleanupRows = 1_000;
/** Between two of them. */
export const cleanupPauseMs = 200;

const dayMs = 86_400_000;

export interface CleanupOptions {
  readonly store: Pick<OutboxStore, 'cleanup' | 'partition'>;
  readonly settings: Pick<RelaySettings, 'cleanupEnabled' | 'retentionDays' | 'failedRetentionDays'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** While it is true, others do it. */
  readonly rests?: () => boolean;
}

/** Deletes old rows, one instance at a time. */
export interface Cleanup {
  /** Until `stop`; at once where it is not enabled. */
  run(): Promise<void>;
  stop(): void;
}

export function createCleanup({ store, settings, clock, logger, rests }: CleanupOptions): Cleanup {
  const { retentionDays, failedRetentionDays } = settings;
  const say = throttledLog(logger, clock, { level: 'warn' });
  const pause = createWakeup();
  let isStopped = !settings.cleanupEnabled;

  /** Days whose partitions are dropped need no deleting: what is still there a day later was kept back by its neighbours. */
  async function daysOfRows(): Promise<number> {
    try {
      return (await store.partition(retentionDays * dayMs)) ? retentionDays + 1 : retentionDays;
    } catch (error) {
      say('partitions', `outbox: ${reasonOf(error)}`);
      return retentionDays;
    }
  }

  async function cleanUp(status: 'PUBLISHED' | 'FAILED', days: number): Promise<void> {
    for (let deleted = cleanupRows, sum = 0; deleted >= cleanupRows && !isStopped; ) {
      deleted = await store.cleanup(status, days * dayMs, cleanupRows);
      sum += deleted;
      if (deleted >= cleanupRows) await pause.wait(cleanupPauseMs);
      else if (sum > 0) logger.debug(`outbox: old ${status} rows were deleted`, { rows: sum });
    }
  }

  return {
    async run() {
      let waitMs = firstCleanupMs;
      while (!isStopped) {
        await pause.wait(waitMs);
        if (isStopped) return;
        waitMs = cleanupIntervalMs;
        if (rests?.()) continue;
        try {
          await cleanUp('PUBLISHED', await daysOfRows());
          // Nobody has ever seen what is in them: 0 does not mean at once.
          if (failedRetentionDays > 0) await cleanUp('FAILED', failedRetentionDays);
        } catch (error) {
          say('cleanup', `outbox: old rows cannot be deleted, and are tried again: ${reasonOf(error)}`);
        }
      }
    },
    stop() {
      isStopped = true;
      pause.raise();
    },
  };
}

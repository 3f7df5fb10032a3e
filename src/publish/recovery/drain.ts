import { backoffMs, type Clock, isAnswered } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import { type RecoverOptions, recover } from './recover.ts';

export interface DrainOptions
  extends Pick<RecoverOptions, 'source' | 'send' | 'partitionsFor' | 'partitionOf' | 'sleep'> {
  /** Events a second, so that what is new is not held up by what is old. */
  readonly ratePerSecond: number;
  /** Whether anything lies in the backup. */
  readonly hasEvents: () => Promise<boolean>;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** What this process still writes becomes readable. */
  readonly prepare: () => Promise<void>;
  /** After a look that took events out, or set some aside. */
  readonly onDrained: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Empties the local backup of a running process into the original topics when the cluster is back. */
export interface Drain {
  /** The main topic took an event: the cluster is there. Costs next to nothing while there is nothing to do. */
  published?(): void;
  /** Something was put into the backup. */
  stored(): void;
  /** Somebody may have left something there: it is looked for at once. */
  left(): void;
  /** Events that were sent from the backup. */
  count(): number;
  /** Ends after the batch under way. */
  close(): Promise<void>;
}

/** From the first sign of life of the cluster to the first look. */
const calmMs = 2_000;
/** How often what other processes left behind is looked for. */
const lookMs = 60_000;
/** After a failure, doubling. */
const firstPauseMs = 10_000;
const longestPauseMs = 300_000;

/** How long the cluster may take to say that it is there. */
const answerMs = 1_000;

export function isReachable({ ask }: Pick<DrainOptions, 'ask'>): Promise<boolean> {
  return isAnswered(ask(), answerMs);
}

/** Its timers do not keep the process alive: what it has not sent stays in the backup. */
export function createDrain(options: DrainOptions): Drain {
  const { source, clock, logger } = options;
  let timer: NodeJS.Timeout | undefined;
  let timerDueMs = 0;
  let failures = 0;
  let working: Promise<void> | undefined;
  /** Events wait, and the cluster was away: the next success of the main topic is the sign to go on. */
  let isWaitingForCluster = false;
  /** Events came while a look was under way, which may not have seen them. */
  let isStoredMeanwhile = false;
  let closed = false;
  let drained = 0;

  function arm(delayMs: number): void {
    const dueMs = clock.monotonic() + delayMs;
    if (closed || working !== undefined || (timer !== undefined && timerDueMs <= dueMs)) return;
    clearTimeout(timer);
    timerDueMs = dueMs;
    timer = setTimeout(() => {
      timer = undefined;
      working = look().then((nextMs) => {
        working = undefined;
        arm(isStoredMeanwhile ? Math.min(nextMs, firstPauseMs) : nextMs);
        isStoredMeanwhile = false;
      });
    }, delayMs);
    timer.unref();
  }

  /** One look; gives the time until the next one. */
  async function look(): Promise<number> {
    try {
      isWaitingForCluster = false;
      if (!(await options.hasEvents())) return lookMs;
      if (!(await isReachable(options))) return waitForCluster();
      await options.prepare();
      await source.open(true);
    } catch (error) {
      // Another process is at it, or the folder cannot be used, which those who write to it have said already.
      logger.debug(`the backup is not drained: ${reasonOf(error)}`);
      return lookMs;
    }
    try {
      return await empty();
    } catch (error) {
      logger.warn(`the backup could not be drained: ${reasonOf(error)}`);
      return pause();
    } finally {
      await source.close();
    }
  }

  async function empty(): Promise<number> {
    const report = await recover({
      ...options,
      isReachable: () => isReachable(options),
      accept: () => true,
      // The next look is the next try.
      retryWaitsMs: [],
      dryRun: false,
      setsAside: true,
      isStopped: () => closed,
    });
    drained += report.sent;
    if (report.sent > 0) {
      logger.info('events of the backup were sent to their topics', { events: report.sent });
    }
    if (report.sent + report.setAside > 0) await options.onDrained();
    for (const [reason, events] of report.problems)
      logger.warn(`events stay in the backup: ${reason}`, { events });
    if (report.stoppedBy !== undefined) return waitForCluster();
    // What is being written, here or by others, is looked at the next time.
    const unreadable = report.unreadable.filter(({ isInUse }) => isInUse !== true);
    if (report.failed === 0 && unreadable.length === 0) {
      failures = 0;
      return lookMs;
    }
    for (const { place, reason } of unreadable.slice(0, 10)) logger.warn(`backup: ${place}: ${reason}`);
    return pause();
  }

  function waitForCluster(): number {
    isWaitingForCluster = true;
    return pause();
  }

  function pause(): number {
    return backoffMs(++failures, firstPauseMs, longestPauseMs);
  }

  arm(calmMs);
  return {
    published() {
      if (!isWaitingForCluster) return;
      isWaitingForCluster = false;
      failures = 0;
      arm(calmMs);
    },
    stored() {
      if (working !== undefined) isStoredMeanwhile = true;
      if (timer === undefined || timerDueMs - clock.monotonic() <= firstPauseMs) return;
      isWaitingForCluster = true;
      arm(firstPauseMs);
    },
    left: () => arm(0),
    count: () => drained,
    async close() {
      closed = true;
      clearTimeout(timer);
      await working;
    },
  };
}

export function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}

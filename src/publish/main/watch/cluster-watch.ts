// watch/: who looks after a cluster that says nothing: sends that hang, its silence, and its return.

import { type Clock, inTime } from '../../../ground/clock.ts';

/** How often a cluster that is away is asked whether it is back. */
export const askMs = 750;
/** How long its answer may take. */
export const answerMs = 1_000;

export interface ReturnWatchOptions {
  readonly clock: Clock;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** A time, a little shorter or longer, so that many processes do not ask at the same moment. */
  readonly spread: (ms: number) => number;
  /** The cluster was away, and is back. */
  readonly onReturn: () => void;
}

/**
 * A retry waits up to some seconds, and a cluster may be back right after the last one. Here a cluster is asked while retries
 * wait. Where it answers at first, it is one partition that is in trouble, and its retries wait as long as they are to.
 */
export interface ReturnWatch {
  /** A batch waits so long for its retry. */
  pausing(waitMs: number): void;
  /** The cluster has taken a batch. */
  stored(): void;
  close(): void;
}

export function createReturnWatch({ clock, ask, spread, onReturn }: ReturnWatchOptions): ReturnWatch {
  let untilMs = Number.NEGATIVE_INFINITY;
  let isAway = false;
  let isAsking = false;
  let timer: NodeJS.Timeout | undefined;

  function isBack(): void {
    clearTimeout(timer);
    timer = undefined;
    if (!isAway) return;
    isAway = false;
    onReturn();
  }

  async function question(): Promise<void> {
    timer = undefined;
    if (clock.monotonic() >= untilMs) return;
    isAsking = true;
    const isThere = await inTime(
      ask().then(
        () => true,
        () => false,
      ),
      { limitMs: answerMs, keepsAlive: false, late: () => false },
    );
    isAsking = false;
    if (isThere) return isBack();
    isAway = true;
    timer = setTimeout(() => void question(), spread(askMs)).unref();
  }

  return {
    pausing(waitMs) {
      untilMs = Math.max(untilMs, clock.monotonic() + waitMs);
      if (!isAsking && timer === undefined) void question();
    },
    stored: isBack,
    close() {
      untilMs = Number.NEGATIVE_INFINITY;
      clearTimeout(timer);
    },
  };
}

import { type Clock, isAnswered } from '../../ground/clock.ts';
import { clusterPollMs } from '../broker.ts';

// who looks after a cluster that says nothing: sends that hang, its silence, and its return.

/** How long nothing may be heard while events wait before the cluster is asked; if it is well, it answers in milliseconds. */
export const stallAfterMs = 2_500;
/** How long the answer may take of one that was silent so long. */
export const silentMs = 2_000;
/** How long it may take of one that answers sends, with failures. */
export const answerMs = 1_000;

interface ClusterWatchOptions {
  readonly clock: Clock;
  /** Events wait for the cluster. */
  readonly isWaiting: () => boolean;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** A time, a little shorter or longer, so that many processes do not ask at the same moment. */
  readonly withJitter: (ms: number) => number;
  /** Neither a send nor the question was answered. */
  readonly onSilent: () => void;
  /** The cluster was away, and is back. */
  readonly onReturn: () => void;
}

/**
 * Asks the cluster, one question at a time, where sends alone do not tell whether it is there:
 * - One that hangs gives no errors to count: its events wait until their time is over, and their callers with them. Where
 *   nothing is heard while events wait it is asked, and taken for silent when that is not answered either.
 * - A retry waits up to some seconds, and the cluster may be back right after the last one: it is asked while retries wait.
 *   Where it answers at first, it is one partition that is in trouble, and its retries wait as long as they are to.
 */
export interface ClusterWatch {
  /** The first event waits, where none did. */
  waiting(): void;
  /** A batch waits so long for its retry. */
  pausing(waitMs: number): void;
  /** A send ended, in whatever way. `isStored`: the cluster has taken its batch. */
  heard(isStored: boolean): void;
  close(): void;
}

export function createClusterWatch(options: ClusterWatchOptions): ClusterWatch {
  const { clock, isWaiting, ask, withJitter, onSilent, onReturn } = options;
  let heardAtMs = Number.NEGATIVE_INFINITY;
  let waitingSinceMs = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  let isAway = false;
  let isAsking = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;

  function lookAfter(delayMs: number): void {
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(1, Math.ceil(delayMs))).unref();
  }

  function isPausing(): boolean {
    return clock.monotonic() < pausedUntilMs;
  }

  function untilSilentMs(): number {
    if (!isWaiting()) return Number.POSITIVE_INFINITY;
    return Math.max(heardAtMs, waitingSinceMs) + stallAfterMs - clock.monotonic();
  }

  function look(): void {
    timer = undefined;
    if (isClosed) return;
    const leftMs = untilSilentMs();
    if (leftMs <= 0 || (isAway && isPausing())) void question(leftMs <= 0);
    else if (isWaiting()) lookAfter(leftMs);
  }

  async function question(isSilent: boolean): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    isAsking = true;
    const askedAtMs = clock.monotonic();
    const isThere = await isAnswered(ask(), isSilent ? silentMs : answerMs);
    isAsking = false;
    if (isClosed) return;
    if (isSilent) waitingSinceMs = clock.monotonic();
    if (isThere) isBack();
    else {
      isAway = true;
      if (isSilent && heardAtMs < askedAtMs && isWaiting()) onSilent();
    }
    if (isAway && isPausing()) lookAfter(Math.min(withJitter(clusterPollMs), untilSilentMs()));
    else if (isWaiting()) lookAfter(untilSilentMs());
  }

  function isBack(): void {
    if (!isAway) return;
    isAway = false;
    onReturn();
  }

  return {
    waiting() {
      waitingSinceMs = clock.monotonic();
      if (timer === undefined && !isAsking && !isClosed) lookAfter(stallAfterMs);
    },
    pausing(waitMs) {
      const wasPausing = isPausing();
      pausedUntilMs = Math.max(pausedUntilMs, clock.monotonic() + waitMs);
      if (!isAsking && !isClosed && !(isAway && wasPausing)) void question(false);
    },
    heard(isStored) {
      heardAtMs = clock.monotonic();
      if (isStored) isBack();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

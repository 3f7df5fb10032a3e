import { type Clock, isAnswered } from '../../ground/clock.ts';
import { clusterPollMs } from '../broker.ts';

/** How long sends may hang without any answer before the cluster is asked. A healthy one answers in milliseconds. */
export const stallAfterMs = 2_500;
/** Time limit for the answer after such silence. */
export const silentMs = 2_000;
/** Time limit for the answer while sends are answered, with failures. */
export const answerMs = 1_000;

interface ClusterWatchOptions {
  readonly clock: Clock;
  /** Events wait for the cluster. */
  readonly isWaiting: () => boolean;
  /** Rejects if the cluster is away. */
  readonly ask: () => Promise<unknown>;
  /** Varies a time, so that many processes do not ask at the same moment. */
  readonly withJitter: (ms: number) => number;
  /** Neither a send nor the question was answered. */
  readonly onSilent: () => void;
  /** The cluster was away, and is back. */
  readonly onReturn: () => void;
}

/**
 * Asks the cluster whether it is reachable, one request at a time, when sends alone do not tell:
 * - A hanging cluster gives no errors to count, and callers would wait for the whole delivery time. After silence while events
 *   wait, the cluster is asked. Without an answer it counts as silent.
 * - A retry waits up to some seconds, and the cluster may be back earlier. It is polled while retries wait. If the first poll is
 *   answered, only one partition is in trouble, and its retries wait their full time.
 */
export interface ClusterWatch {
  /** The first event waits, after none. */
  waiting(): void;
  /** A batch waits this long for its retry. */
  pausing(waitMs: number): void;
  /** A send ended. `isStored`: the cluster has taken its batch. */
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

import { type Clock, inTime } from '../../../ground/clock.ts';

/** How long nothing may be heard while events wait before the cluster is asked; if it is well, it answers in milliseconds. */
export const patienceMs = 2_500;
/** How long its answer to that question may take. */
export const answerMs = 2_000;

export interface SilenceWatchOptions {
  readonly clock: Clock;
  /** Events wait for the cluster. */
  readonly isWaiting: () => boolean;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** Neither a send nor the question was answered. */
  readonly onSilent: () => void;
}

/**
 * A cluster that hangs gives no errors to count: its events wait until their time is over, and their callers with them. Here
 * one that says nothing while events wait is asked a question, and is taken for away when that is not answered either.
 */
export interface SilenceWatch {
  /** The first event waits, where none did. */
  waiting(): void;
  /** The cluster was heard: a send ended, in whatever way. */
  heard(): void;
  close(): void;
}

export function createSilenceWatch({ clock, isWaiting, ask, onSilent }: SilenceWatchOptions): SilenceWatch {
  let heardAtMs = Number.NEGATIVE_INFINITY;
  let sinceMs = 0;
  let timer: NodeJS.Timeout | undefined;
  let isAsking = false;
  let isClosed = false;

  function lookAfter(delayMs: number): void {
    timer = setTimeout(look, Math.max(1, Math.ceil(delayMs))).unref();
  }

  function look(): void {
    timer = undefined;
    if (!isWaiting() || isClosed) return;
    const leftMs = Math.max(heardAtMs, sinceMs) + patienceMs - clock.monotonic();
    if (leftMs > 0) lookAfter(leftMs);
    else void question();
  }

  async function question(): Promise<void> {
    isAsking = true;
    const askedAtMs = clock.monotonic();
    const isAnswered = await answered(ask());
    isAsking = false;
    if (isClosed) return;
    if (!isAnswered && heardAtMs < askedAtMs && isWaiting()) onSilent();
    sinceMs = clock.monotonic();
    if (isWaiting()) lookAfter(patienceMs);
  }

  return {
    waiting() {
      sinceMs = clock.monotonic();
      if (timer === undefined && !isAsking && !isClosed) lookAfter(patienceMs);
    },
    heard() {
      heardAtMs = clock.monotonic();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Rejected, or not answered in time: `false`. */
function answered(question: Promise<unknown>): Promise<boolean> {
  const answer = question.then(
    () => true,
    () => false,
  );
  return inTime(answer, { limitMs: answerMs, keepsAlive: false, late: () => false });
}

// Not `performance`, which costs a start 0.8 ms to load; as it stands now, as an application may replace it.
const { hrtime } = process;

/** Time, so that tests can set it. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may step. */
  now(): number;
  /** Milliseconds of a clock that never steps; only differences mean anything. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: Date.now,
  monotonic() {
    const [seconds, nanoseconds] = hrtime();
    return seconds * 1_000 + nanoseconds / 1_000_000;
  },
};

/** 1, 2, 4 … times `firstMs`, `longestMs` at most; `failures`: in a row, from 1. `factor`: in place of 2. */
export function backoffMs(failures: number, firstMs: number, longestMs: number, factor = 2): number {
  return Math.min(firstMs * factor ** (failures - 1), longestMs);
}

/**
 * Waits for `work`, `deadlineMs` at most; `false`: the deadline came first. The timer keeps the process alive: that is what
 * it is for at the end of one.
 */
export function within(deadlineMs: number, work: Promise<unknown>): Promise<boolean> {
  const done = work.then(() => true);
  return inTime(done, { limitMs: deadlineMs, keepsAlive: true, late: () => false });
}

export interface TimeLimit<Late> {
  /** `Infinity`: there is none. */
  readonly limitMs: number;
  /** Whether the wait keeps the process alive. */
  readonly keepsAlive: boolean;
  /** Returns what stands in for a result that has not come by then, or throws what is to be thrown. */
  readonly late: () => Late;
}

/** Whether a question is answered in that time: one that is rejected is not. The wait holds no process. */
export function isAnswered(question: Promise<unknown>, limitMs: number): Promise<boolean> {
  const answer = question.then(
    () => true,
    () => false,
  );
  return inTime(answer, { limitMs, keepsAlive: false, late: () => false });
}

/** Whoever asks for less wants an end. */
const shortMs = 100;

/**
 * Waits for `work` up to a limit. Half of it is left at least where the process stood still, frozen or in one long turn of its event
 * loop: nothing could be answered meanwhile. What becomes of the work after that is nobody's concern, its failure included.
 */
export async function inTime<T, Late>(
  work: Promise<T>,
  { limitMs, keepsAlive, late }: TimeLimit<Late>,
): Promise<T | Late> {
  if (limitMs === Number.POSITIVE_INFINITY) return work;
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    const wait = (halfMs: number, then: () => void): void => {
      timer = setTimeout(then, halfMs);
      if (!keepsAlive) timer.unref();
    };
    if (limitMs < shortMs) wait(limitMs, resolve);
    else wait(limitMs / 2, () => wait(limitMs / 2, resolve));
  });
  try {
    return await Promise.race([work, limit.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}

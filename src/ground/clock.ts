// Not `performance`, which adds 0.8 ms to a start. Bound now, as an application may replace it.
const { hrtime } = process;

/** The time of this process. Tests replace its functions. */
export const clock = {
  /** Milliseconds since the Unix epoch; may step. */
  now: Date.now,
  /** Milliseconds of a clock that never steps; only differences are meaningful. */
  monotonic(): number {
    const [seconds, nanoseconds] = hrtime();
    return seconds * 1_000 + nanoseconds / 1_000_000;
  },
};

/**
 * Exponential backoff: 1, 2, 4 … times `firstMs`, at most `longestMs`. `failures`: consecutive ones, from 1. `factor`: instead
 * of 2.
 */
export function backoffMs(failures: number, firstMs: number, longestMs: number, factor = 2): number {
  return Math.min(firstMs * factor ** (failures - 1), longestMs);
}

/**
 * Waits for `work`, `deadlineMs` at most; `false`: the deadline came first. The timer keeps the process alive, as it is used at
 * exit.
 */
export function within(deadlineMs: number, work: Promise<unknown>): Promise<boolean> {
  const done = work.then(() => true);
  return inTime(done, { limitMs: deadlineMs, keepsAlive: true, late: () => false });
}

interface TimeLimit<Late> {
  /** `Infinity`: no limit. */
  readonly limitMs: number;
  /** Whether the wait keeps the process alive; otherwise the timer is unref'd. */
  readonly keepsAlive: boolean;
  /** Returns the result to use after the limit, or throws the error to reject with. */
  readonly late: () => Late;
}

/** Whether a request succeeds within the limit; false if it rejects. Unref'd. */
export function isAnswered(question: Promise<unknown>, limitMs: number): Promise<boolean> {
  const answer = question.then(
    () => true,
    () => false,
  );
  return inTime(answer, { limitMs, keepsAlive: false, late: () => false });
}

/** Shorter limits are meant to end soon. */
const shortMs = 100;

/**
 * Waits for `work` up to a limit. If the process was frozen or its event loop blocked, at least half of the limit remains
 * afterwards, as no answer could arrive meanwhile. The later outcome of `work` is ignored, errors included.
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

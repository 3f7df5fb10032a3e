/** Time, so that tests can set it. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may step. */
  now(): number;
  /** Milliseconds of a clock that never steps; only differences mean anything. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
};

/**
 * Waits for `work`, `deadlineMs` at most; `false`: the deadline came first. The timer keeps the process alive: that is what
 * it is for at the end of one.
 */
export async function within(deadlineMs: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, deadlineMs, false);
  });
  const isDone = await Promise.race([work.then(() => true), deadline]);
  clearTimeout(timer);
  return isDone;
}

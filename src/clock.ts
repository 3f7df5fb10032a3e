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

/** Waits for `work`, `deadlineMs` at most. The timer keeps the process alive: that is what it is for at the end of one. */
export async function within(deadlineMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, deadlineMs);
  });
  await Promise.race([work, deadline]);
  clearTimeout(timer);
}

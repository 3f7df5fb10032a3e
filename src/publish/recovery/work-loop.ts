/** Work that is done again and again, one run at a time. Its timer does not keep the process alive. */
export interface WorkLoop {
  /** The next run begins in `delayMs` at the latest. */
  within(delayMs: number): void;
  /** Resolves when the run under way has ended; no other one begins. */
  close(): Promise<void>;
}

/** @param work one run, which never rejects; gives the milliseconds until the next one, or `undefined`: when it is asked for */
export function createWorkLoop(monotonic: () => number, work: () => Promise<number | undefined>): WorkLoop {
  let timer: NodeJS.Timeout | undefined;
  let dueMs = Number.POSITIVE_INFINITY;
  let running: Promise<void> | undefined;
  let isClosed = false;

  function within(delayMs: number): void {
    const atMs = monotonic() + delayMs;
    if (isClosed || dueMs <= atMs) return;
    dueMs = atMs;
    if (running === undefined) arm();
  }

  function arm(): void {
    clearTimeout(timer);
    if (isClosed || dueMs === Number.POSITIVE_INFINITY) return;
    timer = setTimeout(run, Math.max(0, dueMs - monotonic())).unref();
  }

  function run(): void {
    dueMs = Number.POSITIVE_INFINITY;
    running = work().then((nextMs) => {
      running = undefined;
      if (nextMs !== undefined) within(nextMs);
      arm();
    });
  }

  return {
    within,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await running;
    },
  };
}

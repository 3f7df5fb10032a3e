/**
 * Timers that `work` makes before it returns keep no process alive: the package has one for each request, and a process that has
 * nothing else to do would wait for a broker that hangs, again and again.
 */
export function withUnheldTimers(work: () => void): void {
  const { setTimeout: given } = globalThis;
  const unheld = (...timer: Parameters<typeof given>): NodeJS.Timeout => {
    const made = given(...timer);
    made.unref?.();
    return made;
  };
  globalThis.setTimeout = unheld as typeof given;
  try {
    work();
  } finally {
    globalThis.setTimeout = given;
  }
}

let isSaid = false;

/**
 * Timers that `work` makes before it returns keep no process alive: the package has one for each request, and a process that has
 * nothing else to do would wait for a broker that hangs, again and again. `say`, once per process: where nobody may change
 * `setTimeout` such a process waits.
 */
export function withUnheldTimers(work: () => void, say: (line: string) => void = () => {}): void {
  const { setTimeout: given } = globalThis;
  const unheld = ((...timer: Parameters<typeof given>): NodeJS.Timeout => {
    const made = given(...timer);
    made?.unref?.();
    return made;
  }) as typeof given;
  const isSet = Reflect.set(globalThis, 'setTimeout', unheld);
  if (!isSet && !isSaid) {
    isSaid = true;
    say('setTimeout cannot be changed in this process: it may wait for a broker that hangs before it ends');
  }
  try {
    work();
  } finally {
    // `work` may have put in its own.
    if (isSet && globalThis.setTimeout === unheld) globalThis.setTimeout = given;
  }
}

/** Lets one loop sleep until something happens. Its timer holds no process. */
export interface Wakeup {
  /** Ends the wait under way, or the next one at once. */
  raise(): void;
  /** Waits for `raise`, `ms` at most. One waits at a time. */
  wait(ms: number): Promise<void>;
}

/** The most that a timer of Node takes. */
const longestMs = 2 ** 31 - 1;

export function createWakeup(): Wakeup {
  let isRaised = false;
  let end: (() => void) | undefined;
  return {
    raise() {
      isRaised = true;
      end?.();
    },
    async wait(ms) {
      if (!isRaised && ms > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.min(Math.ceil(ms), longestMs)).unref();
          end = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        end = undefined;
      }
      isRaised = false;
    },
  };
}

/** Of an error of a store, the line for the log: its promise is that it holds no value. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}

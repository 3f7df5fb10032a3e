/** What is waited for: looked at now and at each change, until there is enough of it. */
export interface Awaited<T> {
  readonly count: number;
  readonly timeoutMs: number;
  readonly find: () => T[];
  /** Calls `listener` at each change; the result stops it. */
  readonly onChange: (listener: () => void) => () => void;
  readonly late: (foundCount: number) => Error;
}

/** Resolves with the first `count` that are found; rejects after `timeoutMs`, and with what `find` throws. */
export function waitUntil<T>({ count, timeoutMs, find, onChange, late }: Awaited<T>): Promise<T[]> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      try {
        const found = find();
        if (found.length < count) return;
        resolve(found.slice(0, count));
      } catch (error) {
        reject(error);
      }
      stop();
    };
    const stopListening = onChange(look);
    const timer = setTimeout(() => {
      stop();
      reject(late(find().length));
    }, timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      stopListening();
    };
    look();
  });
}

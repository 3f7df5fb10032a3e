/** Waits that keep no process alive, and that end together. */
export interface Pauses {
  pause(ms: number): Promise<void>;
  /** Rejects where `work` is not done in time; what it does then is up to whoever started it. */
  limited<T>(ms: number, work: Promise<T>): Promise<T>;
  /** The pause that runs is over, and so is each one from now on. */
  end(): void;
}

export function createPauses(): Pauses {
  let isOver = false;
  let wake: () => void = () => {};

  return {
    pause(ms) {
      if (isOver) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms).unref();
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
    async limited(ms, work) {
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms).unref();
      });
      try {
        return await Promise.race([work, limit]);
      } finally {
        clearTimeout(timer);
      }
    },
    end() {
      isOver = true;
      wake();
    },
  };
}

import { inTime } from '../../../ground/clock.ts';

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
    limited(ms, work) {
      const late = (): never => {
        throw new Error(`no answer within ${ms} ms`);
      };
      return inTime(work, { limitMs: ms, keepsAlive: false, late });
    },
    end() {
      isOver = true;
      wake();
    },
  };
}

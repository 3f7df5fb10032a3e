/** From one that is called with things to one that asks for them, one thing at a time. No wait keeps the process alive. */
export interface HandOver<T> {
  /** Resolves when the other side asks for the next thing; `beat` is called each second until then. */
  give(thing: T, beat: () => Promise<void>): Promise<void>;
  /** The next thing; `undefined` when none comes for `idleMs`. */
  take(): Promise<T | undefined>;
  /** Whoever takes gets this error. */
  fail(error: unknown): void;
  /** Nobody takes any more: whoever gives goes on at once. */
  end(): void;
}

const beatMs = 1_000;

export function createHandOver<T>(idleMs: number): HandOver<T> {
  let waiting: { thing: T; taken: () => void } | undefined;
  let release: (() => void) | undefined;
  let wake: (() => void) | undefined;
  let failure: { error: unknown } | undefined;
  let ended = false;

  return {
    async give(thing, beat) {
      if (ended) return;
      let isReleased = false;
      const released = new Promise<void>((resolve) => {
        waiting = {
          thing,
          taken: () => {
            isReleased = true;
            resolve();
          },
        };
      });
      wake?.();
      while (!isReleased) {
        let timer: NodeJS.Timeout | undefined;
        const second = new Promise<void>((resolve) => {
          timer = setTimeout(resolve, beatMs).unref();
        });
        await Promise.race([released, second]);
        clearTimeout(timer);
        if (!isReleased) await beat();
      }
    },

    async take() {
      release?.();
      release = undefined;
      if (failure === undefined && waiting === undefined) {
        let timer: NodeJS.Timeout | undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
          timer = setTimeout(resolve, idleMs).unref();
        });
        clearTimeout(timer);
        wake = undefined;
      }
      if (failure !== undefined) throw failure.error;
      const given = waiting;
      waiting = undefined;
      release = given?.taken;
      return given?.thing;
    },

    end() {
      ended = true;
      waiting?.taken();
      release?.();
    },

    fail(error) {
      failure ??= { error };
      wake?.();
    },
  };
}

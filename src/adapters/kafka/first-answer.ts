import { askAgainMs } from '../../publish/broker.ts';

/** Beside the first try. */
const mostAgain = 2;

/**
 * What is asked over a connection that is dead without a word has no answer for as long as its time-outs are, however soon the
 * cluster is back. Here it is asked once more every 750 ms, and the first answer counts. A further try has a second and a half.
 * Rejects as the first one does, up to 750 ms later where others may be answered still.
 *
 * @param ask `signal` is aborted when nobody waits for this try any more; `isAgain`: others are without an answer
 * @param isAnswer whether an error is what the cluster says: then no other try would say anything else
 */
export function firstAnswer<T>(
  ask: (signal: AbortSignal, isAgain: boolean) => Promise<T>,
  isAnswer: (error: unknown) => boolean,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const underWay = new Set<AbortController>();
    const again: AbortController[] = [];
    let firstFailure: { readonly error: unknown } | undefined;

    function end(): void {
      clearInterval(timer);
      for (const each of underWay) each.abort();
    }

    function fail(error: unknown): void {
      end();
      reject(error);
    }

    function begin(isAgain: boolean): AbortController {
      const one = new AbortController();
      underWay.add(one);
      ask(one.signal, isAgain).then(
        (answer) => {
          end();
          resolve(answer);
        },
        (error: unknown) => {
          if (!isAgain) firstFailure = { error };
          underWay.delete(one);
          if (isAnswer(error)) fail(error);
          else if (underWay.size === 0) fail(firstFailure?.error);
        },
      );
      return one;
    }

    const timer = setInterval(() => {
      if (firstFailure !== undefined) return fail(firstFailure.error);
      again.push(begin(true));
      if (again.length <= mostAgain) return;
      const oldest = again.shift() as AbortController;
      oldest.abort();
      underWay.delete(oldest);
    }, askAgainMs).unref();
    begin(false);
  });
}

/** Whoever asks while the question is under way gets its answer: many of them would stand in one another's way. */
export function oneAtATime<T>(): (ask: () => Promise<T>) => Promise<T> {
  let underWay: Promise<T> | undefined;
  return (ask) => {
    underWay ??= ask().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}

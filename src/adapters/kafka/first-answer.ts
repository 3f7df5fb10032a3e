/** A broker that is well answers in milliseconds, over a connection that is to be made first, too. */
export const askAgainMs = 750;
/** Beside the first try. */
const mostAgain = 2;

/**
 * What is asked over a connection that is dead without a word has no answer for as long as its time-outs are, however soon the
 * cluster is back. Here it is asked once more every 750 ms, as long as the first try has not failed; the first answer counts. Each
 * further try has a second and a half. Rejects as the first one does, when the others have had their time.
 *
 * @param ask `signal` is aborted when nobody waits for this try any more; `isAgain`: others are without an answer
 */
export function firstAnswer<T>(ask: (signal: AbortSignal, isAgain: boolean) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const underWay = new Set<AbortController>();
    const again: AbortController[] = [];
    let failure: { readonly error: unknown } | undefined;

    function end(): void {
      clearInterval(timer);
      for (const each of underWay) each.abort();
    }

    function over(one: AbortController): void {
      if (!underWay.delete(one) || underWay.size > 0) return;
      end();
      reject(failure?.error);
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
          if (!isAgain) failure = { error };
          over(one);
        },
      );
      return one;
    }

    const timer = setInterval(() => {
      if (failure === undefined) again.push(begin(true));
      const [oldest] = again;
      if (oldest === undefined || (failure === undefined && again.length <= mostAgain)) return;
      again.shift();
      oldest.abort();
      over(oldest);
    }, askAgainMs).unref();
    begin(false);
  });
}

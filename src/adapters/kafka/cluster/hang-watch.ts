import { systemClock } from '../../../ground/clock.ts';

/** How long a send may take before its leader is asked for; a cluster that is well answers in milliseconds. */
export const patienceMs = 3_000;
/** How often it is asked for then: a new one takes some seconds to be elected, and is to be used soon. */
export const lookMs = 500;

/**
 * A broker that stops without closing its connections answers nothing, and a request waits for it up to its time-out, long after
 * the cluster has chosen another leader. So sends that take long are let go of as soon as waiting is in vain, and their retries go to
 * the new leader. Returns what is to be called when a send begins.
 *
 * @param underWay in the order of their begin
 * @param letGo never rejects
 */
export function watchForHangs<Send extends { readonly begunMs: number }>(
  underWay: ReadonlySet<Send>,
  letGo: (send: Send) => Promise<void>,
): () => void {
  const asked = new WeakSet<Send>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    if (underWay.size === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const nowMs = systemClock.monotonic();
    for (const send of underWay) {
      if (nowMs - send.begunMs < patienceMs) return;
      if (asked.has(send)) continue;
      asked.add(send);
      void letGo(send).then(() => asked.delete(send));
    }
  }

  return () => {
    timer ??= setInterval(look, lookMs).unref();
  };
}

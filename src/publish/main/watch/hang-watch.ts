import type { Clock } from '../../../ground/clock.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../broker.ts';

/** How long a send may take before the adapter is asked about it; a cluster that is well answers in milliseconds. */
export const patienceMs = 3_000;
/** How often it is asked then: a new leader takes some seconds to be elected, and is to be used soon. */
export const lookMs = 500;

interface Watched {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly sinceMs: number;
  isAsked: boolean;
  giveUp(failure: SendFailure): void;
}

/**
 * A broker that stops without closing its connections answers nothing, and a client waits for it up to its request time-out,
 * long after the cluster has chosen another leader. Here a send that takes long is looked at until it ends: the adapter
 * finds out what it waits for (`giveUpOn`), and the send fails as soon as waiting is in vain, so that its retry goes to the
 * new leader. A client without `giveUpOn` is returned as it is.
 */
export function watchForHangs(broker: Broker, clock: Clock): Broker {
  const { giveUpOn } = broker;
  if (giveUpOn === undefined) return broker;
  /** In the order of their start. */
  const underWay = new Set<Watched>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    if (underWay.size === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const nowMs = clock.monotonic();
    for (const send of underWay) {
      if (nowMs - send.sinceMs < patienceMs) return;
      if (!send.isAsked) void ask(send);
    }
  }

  async function ask(send: Watched): Promise<void> {
    send.isAsked = true;
    const failure = await giveUpOn?.(send.topic, send.partition).catch(() => undefined);
    send.isAsked = false;
    if (failure !== undefined) send.giveUp(failure);
  }

  function send(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    return new Promise((resolve, reject) => {
      const end = (): void => void underWay.delete(watched);
      const watched: Watched = {
        ...{ topic, partition, sinceMs: clock.monotonic(), isAsked: false },
        giveUp(failure) {
          end();
          resolve({ ok: false, failure });
        },
      };
      underWay.add(watched);
      timer ??= setInterval(look, lookMs).unref();
      broker.send(topic, partition, records).finally(end).then(resolve, reject);
    });
  }

  return { ...broker, send };
}

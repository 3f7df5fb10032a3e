import { setTimeout as sleep } from 'node:timers/promises';

/** Something that takes events, one call each. `onAck`, of a few of them, is called when that one is acknowledged. */
export interface Taker {
  publish(onAck?: () => void): void;
  outstanding(): number;
}

/** One in so many events is timed: asking each would be part of what is measured. */
const timedShare = 16;

function timed(taker: Taker, latencies: number[], index: number): void {
  if (index % timedShare !== 0) {
    taker.publish();
    return;
  }
  const started = performance.now();
  taker.publish(() => latencies.push(performance.now() - started));
}

async function acknowledged(taker: Taker): Promise<void> {
  while (taker.outstanding() > 0) await sleep(1);
}

/** As fast as they are taken, with at most `window` without acknowledgement. Milliseconds to the acknowledgement of some. */
export async function flood(taker: Taker, events: number, window: number): Promise<number[]> {
  const latencies: number[] = [];
  for (let left = events; left > 0; ) {
    for (let free = window - taker.outstanding(); free > 0 && left > 0; free--, left--)
      timed(taker, latencies, left);
    // Not again and again: looking would be most of the CPU of a case that waits for its broker.
    await sleep(1);
  }
  await acknowledged(taker);
  return latencies;
}

/** At an even pace, far below what any case can do: the latency that an application sees from day to day. */
export async function paced(taker: Taker, events: number, perSecond: number): Promise<number[]> {
  const latencies: number[] = [];
  const started = performance.now();
  for (let sent = 0; sent < events; ) {
    const due = Math.min(events, Math.ceil(((performance.now() - started) / 1000) * perSecond));
    for (; sent < due; sent++) timed(taker, latencies, sent);
    await sleep(1);
  }
  await acknowledged(taker);
  return latencies;
}

/** So many callers, each calling again when its call resolves. */
export async function callers(
  call: () => Promise<unknown>,
  events: number,
  count: number,
): Promise<number[]> {
  const latencies: number[] = [];
  let left = events;
  const caller = async (): Promise<void> => {
    while (left-- > 0) {
      const started = performance.now();
      await call();
      latencies.push(performance.now() - started);
    }
  };
  await Promise.all(Array.from({ length: count }, caller));
  return latencies;
}

/** A quantile of what was measured, in its unit. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

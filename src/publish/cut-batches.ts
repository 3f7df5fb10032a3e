export interface BatchLimits {
  /** Events in one send. */
  readonly maxEvents: number;
  /** Bytes in one send; a single event may be larger, and is then sent alone. */
  readonly maxBytes: number;
}

/** How many of these events, which are not empty, go into the next batch. */
export function countForBatch<T>(
  events: readonly T[],
  bytesOf: (event: T) => number,
  { maxEvents, maxBytes }: BatchLimits,
  start = 0,
): number {
  const most = Math.min(events.length - start, maxEvents);
  let bytes = 0;
  for (let count = 0; count < most; count++) {
    bytes += bytesOf(events[start + count] as T);
    if (bytes > maxBytes) return Math.max(count, 1);
  }
  return most;
}

/** All of them, in their order. */
export function cutBatches<T>(
  events: readonly T[],
  bytesOf: (event: T) => number,
  limits: BatchLimits,
): T[][] {
  const batches: T[][] = [];
  for (let start = 0; start < events.length; start += batches.at(-1)?.length ?? 0)
    batches.push(events.slice(start, start + countForBatch(events, bytesOf, limits, start)));
  return batches;
}

/** What a batch becomes that is too large for its topic: two, in their order. */
export function halvesOf<T>(events: readonly T[]): [T[], T[]] {
  const middle = Math.ceil(events.length / 2);
  return [events.slice(0, middle), events.slice(middle)];
}

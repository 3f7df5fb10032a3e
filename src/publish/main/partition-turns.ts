/** Milliseconds until a batch may leave that waited `lingerMs` for company. Asked once for each. */
export type PartitionTurns = (nowMs: number, lingerMs: number) => number;

/**
 * Lets the partitions of a topic send one after the other, evenly over the time that they wait for company anyway. All at
 * once they would hold up the application for the length of all their sends, and set all threads of the broker to work at
 * the same moment.
 */
export function createPartitionTurns(partitions: { readonly size: number }): PartitionTurns {
  let nextAtMs = Number.NEGATIVE_INFINITY;
  return (nowMs, lingerMs) => {
    const atMs = Math.max(nowMs, nextAtMs);
    nextAtMs = atMs + lingerMs / partitions.size;
    return atMs - nowMs;
  };
}

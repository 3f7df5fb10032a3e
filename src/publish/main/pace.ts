/** Milliseconds until a batch may leave that waited `lingerMs` for company. Asked once for each. */
export type Pace = (nowMs: number, lingerMs: number) => number;

/**
 * Lets the partitions of a topic, `count` of them, send one after the other, evenly over the time that they wait for company
 * anyway. All at once they would hold up the application for the length of all their sends, and set all threads of the
 * broker to work at the same moment.
 */
export function createPace(count: () => number): Pace {
  let nextAtMs = Number.NEGATIVE_INFINITY;
  return (nowMs, lingerMs) => {
    const atMs = Math.max(nowMs, nextAtMs);
    nextAtMs = atMs + lingerMs / count();
    return atMs - nowMs;
  };
}

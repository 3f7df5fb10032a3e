import { type Lane, lastId } from './lanes.ts';

/** After a failure, doubling. */
const firstMs = 500;
/** So long at most where a topic is refused or gone, and where its brokers do not answer, for they may be back soon. */
const longestRefusedMs = 10_000;
const longestMs = 2_000;
/** What waits may be much, and is read at each try: a twentieth of the time at most. */
const mostReading = 20;

/** Of the first event of a lane that was not sent. */
export interface HeldUp {
  readonly id: bigint;
  readonly isRefused: boolean;
}

/** The lane is left alone for a while: longer each time that the same event fails. @param readingMs what the try cost */
export function leaveAlone(lane: Lane, { id, isRefused }: HeldUp, nowMs: number, readingMs: number): void {
  const longest = isRefused ? longestRefusedMs : longestMs;
  lane.pauseMs = lane.failedId === id ? Math.min(lane.pauseMs * 2, longest) : firstMs;
  lane.failedId = id;
  lane.retryAtMs = nowMs + Math.max(lane.pauseMs, mostReading * readingMs);
}

/** All of it got through. */
export function endPause(lane: Lane): void {
  lane.failedId = undefined;
  lane.retryAtMs = 0;
}

/**
 * Where the reading of a round may begin: behind what waits for others. Whenever one of those is tried again, all is read: what
 * belongs to no lane is then seen, too.
 */
export function firstOf(ready: Iterable<Lane>, behind: Iterable<Lane>): bigint {
  const tried = new Set(ready);
  const isAll = [...behind].every((lane) => tried.has(lane));
  if (isAll || [...tried].some(({ failedId }) => failedId !== undefined)) return 0n;
  return [...tried].reduce((least, { first }) => (first < least ? first : least), lastId);
}

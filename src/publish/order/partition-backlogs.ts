/** No id is greater. */
export const lastId = 2n ** 64n - 1n;

/**
 * Events of one topic partition some of which left for the backup. It is there from then until all is in order again.
 *
 * | It is | as told by | New events | It becomes |
 * |---|---|---|---|
 * | none | not in the map | go to their topic | pending: an event leaves for the next tiers |
 * | pending | not `isBehind` | wait in their queue | behind: the local backup has stored one; none: all have ended elsewhere |
 * | behind | `isBehind` | go to the backup; wait in their queue where that is full | ending: a pass begins, and at most `lastEvents` are left |
 * | ending | `isEnding` as well | wait in their queue | none: the pass has sent all; behind: it has not, or there is no room in memory |
 *
 * Until it is known whether an earlier run has left any, all topics are pending; while its backlog is sent, they are behind.
 */
export interface PartitionBacklog {
  readonly topic: string;
  readonly number: number;
  /** On their way through the tiers. */
  pending: number;
  /** Some are in the backup: what comes goes there, too. */
  isBehind: boolean;
  /** Little is left in the backup: what comes waits in its queue for the last ones. */
  isEnding: boolean;
  /** Put into the backup since the backlog is there, and when the last pass began. */
  stored: number;
  storedBefore: number;
  /** When what is still in the backup began to wait, on the monotonic clock. */
  sinceMs: number;
  /** The latest that left for the backup. */
  latest: bigint;
  /** None before it is in the backup; and of those that left for it since the pass began, or were not sent by it. */
  first: bigint;
  nextFirst: bigint;
  /** The event that was not sent at the last try, how long the pause behind that is, and its end on the monotonic clock. */
  failedId: bigint | undefined;
  pauseMs: number;
  retryAtMs: number;
}

interface TopicBacklogs {
  readonly count: number;
  readonly backlogs: Map<number, PartitionBacklog>;
}

/** The backlogs of all topics, by key. */
export interface PartitionBacklogs {
  readonly size: number;
  all(): Iterable<PartitionBacklog>;
  of(topic: string): Iterable<PartitionBacklog>;
  find(topic: string, key: string | null): PartitionBacklog | undefined;
  /** The one of a partition, where the topic has as many as it had; else all of its topic. */
  ofPartition(
    topic: string,
    partition: number | undefined,
    count: number | undefined,
  ): Iterable<PartitionBacklog>;
  /** The partition of a backlog, where the topic has as many as it had. */
  partitionOf(backlog: PartitionBacklog, count: number | undefined): number | undefined;
  make(topic: string, key: string, count: number | undefined): PartitionBacklog;
  remove(backlog: PartitionBacklog): void;
}

export function createPartitionBacklogs(
  partitionOfKey: (key: string, count: number) => number,
): PartitionBacklogs {
  const topics = new Map<string, TopicBacklogs>();
  let size = 0;

  return {
    get size() {
      return size;
    },
    *all() {
      for (const { backlogs } of [...topics.values()]) yield* [...backlogs.values()];
    },
    of: (topic) => [...(topics.get(topic)?.backlogs.values() ?? [])],
    find(topic, key) {
      const known = topics.get(topic);
      if (known === undefined || key === null) return undefined;
      return known.backlogs.get(partitionOfKey(key, known.count));
    },
    ofPartition(topic, partition, count) {
      const known = topics.get(topic);
      if (known === undefined) return [];
      if (partition === undefined || known.count !== count) return known.backlogs.values();
      const backlog = known.backlogs.get(partition);
      return backlog === undefined ? [] : [backlog];
    },
    partitionOf: ({ topic, number }, count) => (topics.get(topic)?.count === count ? number : undefined),
    make(topic, key, count = 1) {
      let known = topics.get(topic);
      if (known === undefined) {
        known = { count, backlogs: new Map() };
        topics.set(topic, known);
      }
      const number = partitionOfKey(key, known.count);
      let backlog = known.backlogs.get(number);
      if (backlog === undefined) {
        backlog = {
          ...{ topic, number, isBehind: false, isEnding: false },
          ...{ pending: 0, stored: 0, storedBefore: 0, sinceMs: 0, pauseMs: 0, retryAtMs: 0 },
          ...{ latest: 0n, first: lastId, nextFirst: lastId, failedId: undefined },
        };
        known.backlogs.set(number, backlog);
        size++;
      }
      return backlog;
    },
    remove({ topic, number }) {
      const known = topics.get(topic);
      if (known?.backlogs.delete(number) !== true) return;
      size--;
      if (known.backlogs.size === 0) topics.delete(topic);
    },
  };
}

/** After a failure, doubling. */
const firstMs = 500;
/** So long at most where a topic is refused or gone, and where its brokers do not answer, for they may be back soon. */
const longestRefusedMs = 10_000;
const longestMs = 2_000;
/** What waits may be much, and is read at each try: a twentieth of the time at most. */
const mostReading = 20;

/** Of the first event of a backlog that was not sent. */
export interface HeldUp {
  readonly id: bigint;
  readonly isRefused: boolean;
}

/** The backlog is left alone for a while: longer each time that the same event fails. @param readingMs what the try cost */
export function backOff(
  backlog: PartitionBacklog,
  { id, isRefused }: HeldUp,
  nowMs: number,
  readingMs: number,
): void {
  const longest = isRefused ? longestRefusedMs : longestMs;
  backlog.pauseMs = backlog.failedId === id ? Math.min(backlog.pauseMs * 2, longest) : firstMs;
  backlog.failedId = id;
  backlog.retryAtMs = nowMs + Math.max(backlog.pauseMs, mostReading * readingMs);
}

/** All of it got through. */
export function endBackoff(backlog: PartitionBacklog): void {
  backlog.failedId = undefined;
  backlog.retryAtMs = 0;
}

/**
 * Where the reading of a pass may begin: behind what waits for others. Whenever one of those is tried again, all is read: what
 * belongs to no backlog is then seen, too.
 */
export function firstOf(ready: Iterable<PartitionBacklog>, behind: Iterable<PartitionBacklog>): bigint {
  const tried = new Set(ready);
  const isAll = [...behind].every((backlog) => tried.has(backlog));
  if (isAll || [...tried].some(({ failedId }) => failedId !== undefined)) return 0n;
  return [...tried].reduce((least, { first }) => (first < least ? first : least), lastId);
}

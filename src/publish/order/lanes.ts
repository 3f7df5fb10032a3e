import { orderOf } from '../../ground/event-id.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { Release, WaitingEvent } from './key-order.ts';

/** No id is greater. */
export const lastId = 2n ** 64n - 1n;

export interface Held extends WaitingEvent {
  readonly bytes: number;
  readonly go: (way: Release) => void;
}

/** Events of one topic partition some of which left for the backup. It is there from then until all is in order again. */
export interface Lane {
  readonly topic: string;
  readonly number: number;
  /** On their way through the tiers. */
  undecided: number;
  /** Some are in the backup: what comes goes there, too. */
  isBehind: boolean;
  /** Little is left in the backup: what comes waits in memory for the last ones. */
  isEnding: boolean;
  /** Put into the backup since the lane is there, and when the last round began. */
  stored: number;
  storedBefore: number;
  /** When what is still in the backup began to wait, on the monotonic clock. */
  sinceMs: number;
  /** The latest that left for the backup. */
  latest: bigint;
  /** None before it is in the backup; and of those that left for it since the round began, or were not sent by it. */
  first: bigint;
  nextFirst: bigint;
  /** The event that was not sent at the last try, how long the pause behind that is, and its end on the monotonic clock. */
  failedId: bigint | undefined;
  pauseMs: number;
  retryAtMs: number;
  /** In their order. */
  readonly held: Held[];
}

interface TopicLanes {
  readonly count: number;
  readonly lanes: Map<number, Lane>;
}

/** The lanes of all topics, by key. */
export interface Lanes {
  readonly size: number;
  all(): Iterable<Lane>;
  of(topic: string): Iterable<Lane>;
  find(topic: string, key: string | null): Lane | undefined;
  /** The one of a partition, where the topic has as many as it had; else all of its topic. */
  ofPartition(topic: string, partition: number | undefined, count: number | undefined): Iterable<Lane>;
  /** The partition of a lane, where the topic has as many as it had. */
  partitionOf(lane: Lane, count: number | undefined): number | undefined;
  make(topic: string, key: string, count: number | undefined): Lane;
  remove(lane: Lane): void;
}

export function createLanes(partitionOfKey: (key: string, count: number) => number): Lanes {
  const topics = new Map<string, TopicLanes>();
  let size = 0;

  return {
    get size() {
      return size;
    },
    *all() {
      for (const { lanes } of [...topics.values()]) yield* [...lanes.values()];
    },
    of: (topic) => [...(topics.get(topic)?.lanes.values() ?? [])],
    find(topic, key) {
      const known = topics.get(topic);
      if (known === undefined || key === null) return undefined;
      return known.lanes.get(partitionOfKey(key, known.count));
    },
    ofPartition(topic, partition, count) {
      const known = topics.get(topic);
      if (known === undefined) return [];
      if (partition === undefined || known.count !== count) return known.lanes.values();
      const lane = known.lanes.get(partition);
      return lane === undefined ? [] : [lane];
    },
    partitionOf: ({ topic, number }, count) => (topics.get(topic)?.count === count ? number : undefined),
    make(topic, key, count = 1) {
      let known = topics.get(topic);
      if (known === undefined) {
        known = { count, lanes: new Map() };
        topics.set(topic, known);
      }
      const number = partitionOfKey(key, known.count);
      let lane = known.lanes.get(number);
      if (lane === undefined) {
        lane = {
          ...{ topic, number, isBehind: false, isEnding: false, held: [] },
          ...{ undecided: 0, stored: 0, storedBefore: 0, sinceMs: 0, pauseMs: 0, retryAtMs: 0 },
          ...{ latest: 0n, first: lastId, nextFirst: lastId, failedId: undefined },
        };
        known.lanes.set(number, lane);
        size++;
      }
      return lane;
    },
    remove({ topic, number }) {
      const known = topics.get(topic);
      if (known?.lanes.delete(number) !== true) return;
      size--;
      if (known.lanes.size === 0) topics.delete(topic);
    },
  };
}

/** Nearly always the last one of them. */
export function insertInOrder(held: Held[], one: Held): void {
  const order = orderOf(one.event.eventId);
  let at = held.length;
  while (at > 0 && orderOf((held[at - 1] as Held).event.eventId) > order) at--;
  held.splice(at, 0, one);
}

/** Roughly what an event takes in memory while it waits. */
export function heldBytes({ value, key }: SerializedEvent): number {
  return value.length + key.length;
}

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

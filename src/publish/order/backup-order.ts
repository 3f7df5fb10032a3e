// order/: events of one key stay in order although some pass through the local backup.

import { clock } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-fields.ts';
import { logger, throttledLog } from '../../observe/logger.ts';
import { createInFlight, type Generation } from '../api/caller-wait.ts';
import type { SendFailure } from '../broker.ts';
import type { FailedEvent } from '../tier.ts';

interface BackupOrderOptions {
  readonly partitionOfKey: (key: string, partitionCount: number) => number;
}

/** The part of `KeyOrder` for the backup and its drain. */
interface BackupOrder extends KeyOrder {
  /** The local backup has stored the event. */
  stored(failed: FailedEvent): void;
  /** Whether own events wait, or may wait, in the backup. */
  isBehind(): boolean;
  /** Milliseconds until a pass could send something. `Infinity`: not before the topics of earlier runs are known. */
  nextPassMs(): number;
  /** Resolves when all events on their way to the backup have arrived: what is then read from it is complete. */
  beginPass(): Promise<Pass>;
  /** Reports the backlog of earlier processes, which is sent first. All events wait until the first call. */
  earlierRun(what: EarlierRun): void;
  /** How long the oldest event has waited in the backup, in milliseconds; 0: none waits. */
  oldestMs(): number;
}

/**
 * `first`: new events of all topics queue behind the backlog. Else the topics of earlier runs that could not be sent; all others
 * have no backlog.
 */
type EarlierRun = 'first' | { readonly topics: ReadonlySet<string> };

/** With this many left in a partition, new events wait in their queue until the backup is empty. */
const lastEvents = 1_000;

export function createBackupOrder(options: BackupOrderOptions): BackupOrder {
  const backlogs = createPartitionBacklogs(options.partitionOfKey);
  const inFlight = createInFlight();
  const onTheirWay = new Map<FailedEvent, { backlog: PartitionBacklog; generation: Generation }>();
  const say = throttledLog({ level: 'warn', saysLeftOut: false });
  const topicsSaid = new Set<string>();
  let queue: OrderedQueue | undefined;
  /** For all topics: not known yet, behind the backlog of an earlier process, or decided for each topic. */
  let start: 'unknown' | 'behind' | 'known' = 'unknown';
  let startedAtMs = clock.monotonic();
  let earlierTopics: ReadonlySet<string> = new Set();
  let isGuarding = true;
  /** The backup has, or will have, an event that belongs to no backlog. */
  let hasUnowned = false;

  function guard(): void {
    isGuarding = start !== 'known' || backlogs.size > 0 || earlierTopics.size > 0;
  }

  function startSpilling(backlog: PartitionBacklog): void {
    backlog.draining = false;
    if (!backlog.isBehind) {
      backlog.isBehind = true;
      backlog.sinceMs = clock.monotonic();
      if (!topicsSaid.has(backlog.topic)) {
        topicsSaid.add(backlog.topic);
        const message = `topic "${backlog.topic}": new events wait behind earlier events of their partition in the backup`;
        say(`behind ${backlog.topic}`, message);
      }
    }
    queue?.orderChanged(backlog.topic, partitionNow(backlog));
  }

  function open(backlog: PartitionBacklog): void {
    const partition = partitionNow(backlog);
    backlogs.remove(backlog);
    guard();
    const { topic } = backlog;
    if (topicsSaid.has(topic) && ![...backlogs.of(topic)].some(({ isBehind }) => isBehind)) {
      topicsSaid.delete(topic);
      logger.info(`topic "${topic}": the backup is empty, and events go to the topic again`);
    }
    queue?.orderChanged(topic, partition);
  }

  function stateOf(topic: string, partition: number | undefined): OrderState {
    if (start === 'unknown') return 'undecided';
    if (start === 'behind' || earlierTopics.has(topic)) return 'behind';
    let state: OrderState = 'open';
    for (const backlog of backlogs.ofPartition(topic, partition, queue?.countOf(topic))) {
      if (backlog.isBehind && !backlog.draining) return 'behind';
      state = 'undecided';
    }
    return state;
  }

  const behind = (): PartitionBacklog[] => [...backlogs.all()].filter(({ isBehind }) => isBehind);

  const partitionNow = (backlog: PartitionBacklog): number | undefined =>
    backlogs.partitionOf(backlog, queue?.countOf(backlog.topic));

  const firstBehindBackup = (backlog: PartitionBacklog): bigint | undefined =>
    queue?.firstBehindBackup(backlog.topic, partitionNow(backlog));

  function isReady(backlog: PartitionBacklog): boolean {
    if (backlog.retryAtMs > clock.monotonic()) return false;
    return !earlierTopics.has(backlog.topic) && queue?.holds(backlog.topic, partitionNow(backlog)) !== true;
  }

  return {
    get isGuarding() {
      return isGuarding;
    },

    stateOf,
    stateOfKey(topic, key) {
      const count = queue?.countOf(topic);
      const isKnown = key !== null && count !== undefined;
      return stateOf(topic, isKnown ? options.partitionOfKey(key, count) : undefined);
    },

    leaving(failed) {
      const { event, topic, failure } = failed;
      // Its topic never takes it. Like a dead letter, it has no place in the order.
      if (failure.kind === 'too_large') {
        hasUnowned = true;
        return;
      }
      const backlog = backlogs.make(topic, event.key, queue?.countOf(topic));
      isGuarding = true;
      backlog.pending++;
      const id = orderOf(event.eventId);
      if (id > backlog.latest) backlog.latest = id;
      if (id < backlog.first) backlog.first = id;
      if (id < backlog.nextFirst) backlog.nextFirst = id;
      onTheirWay.set(failed, { backlog, generation: inFlight.begin() });
      // It may arrive after the pass has read everything.
      if (backlog.draining) startSpilling(backlog);
    },

    stored(failed) {
      const backlog = onTheirWay.get(failed)?.backlog;
      if (backlog === undefined) return;
      backlog.stored++;
      if (!backlog.isBehind) startSpilling(backlog);
    },

    decided(failed) {
      const known = onTheirWay.get(failed);
      if (known === undefined) return;
      onTheirWay.delete(failed);
      const { backlog, generation } = known;
      backlog.pending--;
      if (backlog.pending === 0 && !backlog.isBehind) open(backlog);
      inFlight.end(generation);
    },

    attach(attached) {
      queue = attached;
    },

    isBehind: () => behind().length > 0,

    nextPassMs() {
      const all = behind();
      if (hasUnowned || all.length === 0) return 0;
      const times = all.filter(({ topic }) => !earlierTopics.has(topic)).map(({ retryAtMs }) => retryAtMs);
      return Math.max(0, Math.min(...times) - clock.monotonic());
    },

    async beginPass() {
      /** With the last event of each that this pass may send. */
      const ready = new Map<PartitionBacklog, bigint>();
      const mayBeReady = behind().filter(isReady);
      for (const backlog of mayBeReady) {
        // Events that found the backup full may try again.
        queue?.orderChanged(backlog.topic, partitionNow(backlog));
        ready.set(backlog, backlog.latest);
        backlog.nextFirst = lastId;
        backlog.draining = backlog.stored - backlog.storedBefore <= lastEvents;
      }
      const beganMs = clock.monotonic();
      const waiting = behind();
      const includesUnowned = hasUnowned || waiting.length === 0;
      hasUnowned = false;
      await inFlight.soFar();
      for (const [backlog, latest] of ready) {
        backlog.storedBefore = backlog.stored;
        const first = firstBehindBackup(backlog);
        if (first !== undefined && first <= latest) ready.set(backlog, first - 1n);
      }
      return createPass({
        ...{ ready, includesUnowned, beganMs, open, startSpilling, monotonic: clock.monotonic },
        from: includesUnowned ? 0n : firstOf(ready.keys(), waiting),
        backlogOf: ({ topic, key }) => (topic === undefined ? undefined : backlogs.find(topic, key)),
        // Without a backlog: its topic did not take it, and all later events of its partition are sent.
        acceptsUnowned: ({ topic = '' }) => start === 'known' && !earlierTopics.has(topic),
      });
    },

    earlierRun(what) {
      if (what === 'first') {
        start = 'behind';
        startedAtMs = clock.monotonic();
        logger.info('the backup of an earlier run is sent first, before new events');
      } else {
        start = 'known';
        earlierTopics = what.topics;
        guard();
      }
      queue?.orderChanged(undefined, undefined);
    },

    oldestMs() {
      const isLeft = start === 'behind' || earlierTopics.size > 0;
      const times = [...backlogs.all()].filter(({ isBehind }) => isBehind).map(({ sinceMs }) => sinceMs);
      if (isLeft) times.push(startedAtMs);
      return times.length === 0 ? 0 : clock.monotonic() - Math.min(...times);
    },
  };
}

/** Greater than any id. */
const lastId = 2n ** 64n - 1n;

/**
 * The events of one topic partition, some of which left for the backup. Exists until they are in order again.
 *
 * - none: not in the map. New events go to their topic. An event that leaves for the next tiers makes it pending.
 * - pending: not `isBehind`. New events wait in their queue. Next: behind when the local backup has stored one; none when all have
 *   ended elsewhere.
 * - behind: `isBehind`. New events go to the backup, or wait in their queue while it is full. Next: draining when a pass begins
 *   with at most `lastEvents` left.
 * - draining: `isBehind` and `draining`. New events wait in their queue. Next: none when the pass has sent all; behind when it has
 *   not, or memory is full.
 *
 * All topics are pending until the backlog of earlier runs is known. They are behind while it is sent.
 */
interface PartitionBacklog {
  readonly topic: string;
  readonly number: number;
  /** In flight through the tiers. */
  pending: number;
  /** Some are in the backup; new events go there, too. */
  isBehind: boolean;
  /** Little is left in the backup; new events wait in their queue. */
  draining: boolean;
  /** Stored in the backup since this backlog exists, and the same at the start of the last pass. */
  stored: number;
  storedBefore: number;
  /** Since when the oldest event in the backup waits, on the monotonic clock. */
  sinceMs: number;
  /** The highest id that left for the backup. */
  latest: bigint;
  /** Lower bounds of the ids in the backup: now, and after this pass. */
  first: bigint;
  nextFirst: bigint;
  /** The event that was not sent at the last try, the backoff after it, and the end of that on the monotonic clock. */
  failedId: bigint | undefined;
  pauseMs: number;
  retryAtMs: number;
}

interface TopicBacklogs {
  readonly count: number;
  readonly backlogs: Map<number, PartitionBacklog>;
}

/** The backlogs of all topics. */
function createPartitionBacklogs(partitionOfKey: (key: string, count: number) => number) {
  const topics = new Map<string, TopicBacklogs>();
  let size = 0;

  return {
    get size() {
      return size;
    },
    *all(): Iterable<PartitionBacklog> {
      for (const { backlogs } of [...topics.values()]) yield* [...backlogs.values()];
    },
    of: (topic: string): Iterable<PartitionBacklog> => [...(topics.get(topic)?.backlogs.values() ?? [])],
    find(topic: string, key: string | null): PartitionBacklog | undefined {
      const known = topics.get(topic);
      if (known === undefined || key === null) return undefined;
      return known.backlogs.get(partitionOfKey(key, known.count));
    },
    /**
     * The backlog of a partition, if the topic still has the same number of partitions. Otherwise all backlogs of the topic.
     */
    ofPartition(
      topic: string,
      partition: number | undefined,
      count: number | undefined,
    ): Iterable<PartitionBacklog> {
      const known = topics.get(topic);
      if (known === undefined) return [];
      if (partition === undefined || known.count !== count) return known.backlogs.values();
      const backlog = known.backlogs.get(partition);
      return backlog === undefined ? [] : [backlog];
    },
    /** `undefined`: the topic's number of partitions has changed. */
    partitionOf: ({ topic, number }: PartitionBacklog, count: number | undefined): number | undefined =>
      topics.get(topic)?.count === count ? number : undefined,
    make(topic: string, key: string, count = 1): PartitionBacklog {
      let known = topics.get(topic);
      if (known === undefined) {
        known = { count, backlogs: new Map() };
        topics.set(topic, known);
      }
      const number = partitionOfKey(key, known.count);
      let backlog = known.backlogs.get(number);
      if (backlog === undefined) {
        backlog = {
          ...{ topic, number, isBehind: false, draining: false },
          ...{ pending: 0, stored: 0, storedBefore: 0, sinceMs: 0, pauseMs: 0, retryAtMs: 0 },
          ...{ latest: 0n, first: lastId, nextFirst: lastId, failedId: undefined },
        };
        known.backlogs.set(number, backlog);
        size++;
      }
      return backlog;
    },
    remove({ topic, number }: PartitionBacklog): void {
      const known = topics.get(topic);
      if (known?.backlogs.delete(number) !== true) return;
      size--;
      if (known.backlogs.size === 0) topics.delete(topic);
    },
  };
}

/** The first backoff. It doubles. */
const firstMs = 500;
/** Limits of the backoff: after a refusal by the topic, and after a failure of brokers, which may be back soon. */
const longestRefusedMs = 10_000;
const longestMs = 2_000;
/** The backlog is read at each try, and may be large: reading takes a twentieth of the time at most. */
const maxReadShare = 20;

/** The first event of a backlog that was not sent. */
interface HeldUp {
  readonly id: bigint;
  readonly isRefused: boolean;
}

/**
 * Delays the next try of a backlog: longer each time that the same event fails.
 * @param readingMs duration of the failed try
 */
function backOff(
  backlog: PartitionBacklog,
  { id, isRefused }: HeldUp,
  nowMs: number,
  readingMs: number,
): void {
  const longest = isRefused ? longestRefusedMs : longestMs;
  backlog.pauseMs = backlog.failedId === id ? Math.min(backlog.pauseMs * 2, longest) : firstMs;
  backlog.failedId = id;
  backlog.retryAtMs = nowMs + Math.max(backlog.pauseMs, maxReadShare * readingMs);
}

function endBackoff(backlog: PartitionBacklog): void {
  backlog.failedId = undefined;
  backlog.retryAtMs = 0;
}

/**
 * From which id a pass reads. It skips events that wait behind others. When such a backlog is tried again, the pass reads
 * everything, and so also finds events that belong to no backlog.
 */
function firstOf(ready: Iterable<PartitionBacklog>, behind: Iterable<PartitionBacklog>): bigint {
  const tried = new Set(ready);
  const isAll = [...behind].every((backlog) => tried.has(backlog));
  if (isAll || [...tried].some(({ failedId }) => failedId !== undefined)) return 0n;
  return [...tried].reduce((least, { first }) => (first < least ? first : least), lastId);
}

interface Placed {
  readonly eventId: string;
  readonly topic: string | undefined;
  readonly key: string | null;
}

/** One pass over the process's own backup, in the order of the events. */
interface Pass {
  /** No event that may be sent has a lower id. */
  readonly from: bigint;
  /** Whether it may be sent now: every earlier event of its partition is sent. */
  accepts(event: Placed): boolean;
  /** The event was not sent and stays; nothing after it in its partition is sent. `isRefused`: its topic refused it. */
  failed(event: Placed, isRefused: boolean): void;
  /** The rest need not be read. */
  isOver(): boolean;
  /**
   * `isComplete`: everything that existed when the pass began was examined.
   * @param readingMs duration of the pass if it sent nothing
   */
  end(isComplete: boolean, readingMs: number): void;
}

interface PassParts {
  readonly from: bigint;
  /** The backlogs of this pass, with the last event of each that it may send. */
  readonly ready: ReadonlyMap<PartitionBacklog, bigint>;
  /** There may be events without a backlog. */
  readonly includesUnowned: boolean;
  readonly beganMs: number;
  readonly monotonic: () => number;
  readonly backlogOf: (event: Placed) => PartitionBacklog | undefined;
  readonly acceptsUnowned: (event: Placed) => boolean;
  readonly open: (backlog: PartitionBacklog) => void;
  readonly startSpilling: (backlog: PartitionBacklog) => void;
}

function createPass(parts: PassParts): Pass {
  const { ready, backlogOf } = parts;
  const failed = new Map<PartitionBacklog, HeldUp>();
  const unfinished = new Set<PartitionBacklog>();

  function mayBeSent(backlog: PartitionBacklog, id: bigint): boolean {
    // It must not overtake an event that left since the pass began.
    return id <= (ready.get(backlog) as bigint) && id <= backlog.nextFirst;
  }

  return {
    from: parts.from,
    isOver: () => !parts.includesUnowned && failed.size === ready.size,
    accepts(event) {
      const backlog = backlogOf(event);
      if (backlog === undefined) return parts.acceptsUnowned(event);
      if (!ready.has(backlog) || failed.has(backlog)) return false;
      const id = orderOf(event.eventId);
      if (mayBeSent(backlog, id)) return true;
      unfinished.add(backlog);
      if (id < backlog.nextFirst) backlog.nextFirst = id;
      return false;
    },
    failed(event, isRefused) {
      const backlog = backlogOf(event);
      if (backlog !== undefined && !failed.has(backlog))
        failed.set(backlog, { id: orderOf(event.eventId), isRefused });
    },
    end(isComplete, readingMs) {
      for (const backlog of ready.keys()) {
        const heldUp = failed.get(backlog);
        const isThrough = isComplete && heldUp === undefined;
        if (isThrough) {
          backlog.sinceMs = parts.beganMs;
          backlog.first = backlog.nextFirst;
          endBackoff(backlog);
        } else if (isComplete && heldUp) backOff(backlog, heldUp, parts.monotonic(), readingMs);
        if (!backlog.draining) continue;
        if (isThrough && !unfinished.has(backlog) && backlog.pending === 0) parts.open(backlog);
        else parts.startSpilling(backlog);
      }
    },
  };
}

/** For the queued events of a partition: send; wait until others have their outcome; spill to the backup. */
type OrderState = 'open' | 'undecided' | 'behind';

/** The part of the main queue that the order calls. */
interface OrderedQueue {
  /** Number of partitions of a topic; `undefined`: unknown. */
  countOf(topic: string): number | undefined;
  /** Whether the queue of a partition has events that may be sent. `undefined`: any partition. */
  holds(topic: string, partition: number | undefined): boolean;
  /** Position in time of the first event that waits behind others in the backup. */
  firstBehindBackup(topic: string, partition: number | undefined): bigint | undefined;
  /** The state has changed, or the backup may have space again. `undefined`: any topic, any partition. */
  orderChanged(topic: string | undefined, partition: number | undefined): void;
}

/**
 * Keeps the order of each key while events are in the local backup. Later events of the same topic partition go there, too, until
 * the last one is acknowledged. The partition is computed from the key and the number of partitions known when the topic's first
 * backlog began. A topic that grows meanwhile changes nothing.
 */
export interface KeyOrder {
  /** False while the backup holds nothing and nothing is on its way there: no other method needs a call. */
  readonly isGuarding: boolean;
  stateOf(topic: string, partition: number | undefined): OrderState;
  stateOfKey(topic: string, key: string | null): OrderState;
  /** An event leaves for the next tiers, from this turn on. */
  leaving(failed: FailedEvent): void;
  /** The event has its outcome. */
  decided(failed: FailedEvent): void;
  attach(queue: OrderedQueue): void;
}

export function isSpilled({ endedBy }: SendFailure): boolean {
  return endedBy === 'behind' || endedBy === 'behind-unless-full';
}

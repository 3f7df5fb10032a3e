// order/: events of one key stay in their order although some of them go by way of the local backup.

import type { Clock } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-fields.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import { createInFlight, type Generation } from '../api/caller-wait.ts';
import type { SendFailure } from '../broker.ts';
import type { FailedEvent } from '../tier.ts';

interface BackupOrderOptions {
  readonly partitionOfKey: (key: string, partitionCount: number) => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The side of `KeyOrder` that the backup and its drain see. */
export interface BackupOrder extends KeyOrder {
  /** The local backup has it. */
  stored(failed: FailedEvent): void;
  /** Whether own events wait, or may wait, in the backup. */
  isBehind(): boolean;
  /** In how many milliseconds a pass could send something; `Infinity`: not before the topics of earlier runs are known anew. */
  nextPassMs(): number;
  /** Resolves when all that was on its way to the backup before is there: then what is read from it is complete. */
  beginPass(): Promise<Pass>;
  /** What an earlier process left comes first. Until this is called for the first time, all events wait. */
  earlierRun(what: EarlierRun): void;
  /** How long the oldest event has waited in the backup, in milliseconds; 0 where none does. */
  oldestMs(): number;
}

/** `first`: new events go behind them. Else the topics whose events of earlier runs could not be sent; the others have none. */
type EarlierRun = 'first' | { readonly topics: ReadonlySet<string> };

/** So few of a partition are the last ones: what comes meanwhile waits in its queue for them. */
const lastEvents = 1_000;

export function createBackupOrder(options: BackupOrderOptions): BackupOrder {
  const { clock, logger } = options;
  const backlogs = createPartitionBacklogs(options.partitionOfKey);
  const inFlight = createInFlight();
  const onTheirWay = new Map<FailedEvent, { backlog: PartitionBacklog; generation: Generation }>();
  const say = throttledLog(logger, clock, { level: 'warn', saysLeftOut: false });
  const topicsSaid = new Set<string>();
  let queue: OrderedQueue | undefined;
  /** Of all topics: not known yet, behind what an earlier process left, or each for itself. */
  let start: 'unknown' | 'behind' | 'known' = 'unknown';
  let startedAtMs = clock.monotonic();
  let earlierTopics: ReadonlySet<string> = new Set();
  let isGuarding = true;
  /** Something is in the backup, or on its way, that belongs to no backlog. */
  let hasOrphans = false;

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

  const firstHeld = (backlog: PartitionBacklog): bigint | undefined =>
    queue?.firstHeld(backlog.topic, partitionNow(backlog));

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
      // Its topic never takes it: like a dead letter, it is out of the order.
      if (failure.kind === 'too_large') {
        hasOrphans = true;
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
      // It may get there when the pass has read all.
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
      if (hasOrphans || all.length === 0) return 0;
      const times = all.filter(({ topic }) => !earlierTopics.has(topic)).map(({ retryAtMs }) => retryAtMs);
      return Math.max(0, Math.min(...times) - clock.monotonic());
    },

    async beginPass() {
      /** With the last event of each that this pass is about. */
      const ready = new Map<PartitionBacklog, bigint>();
      const mayBeReady = behind().filter(isReady);
      for (const backlog of mayBeReady) {
        // Those for which there was no room.
        queue?.orderChanged(backlog.topic, partitionNow(backlog));
        ready.set(backlog, backlog.latest);
        backlog.nextFirst = lastId;
        backlog.draining = backlog.stored - backlog.storedBefore <= lastEvents;
      }
      const beganMs = clock.monotonic();
      const waiting = behind();
      const isForOrphans = hasOrphans || waiting.length === 0;
      hasOrphans = false;
      await inFlight.soFar();
      for (const [backlog, latest] of ready) {
        backlog.storedBefore = backlog.stored;
        const held = firstHeld(backlog);
        if (held !== undefined && held <= latest) ready.set(backlog, held - 1n);
      }
      return createPass({
        ...{ ready, isForOrphans, beganMs, open, startSpilling: startSpilling, monotonic: clock.monotonic },
        from: isForOrphans ? 0n : firstOf(ready.keys(), waiting),
        backlogOf: ({ topic, key }) => (topic === undefined ? undefined : backlogs.find(topic, key)),
        // Without a backlog it is what its topic did not take when all others of its partition were through.
        acceptsOrphan: ({ topic = '' }) => start === 'known' && !earlierTopics.has(topic),
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

/** No id is greater. */
const lastId = 2n ** 64n - 1n;

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
interface PartitionBacklog {
  readonly topic: string;
  readonly number: number;
  /** On their way through the tiers. */
  pending: number;
  /** Some are in the backup: what comes goes there, too. */
  isBehind: boolean;
  /** Little is left in the backup: what comes waits in its queue for the last ones. */
  draining: boolean;
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
interface PartitionBacklogs {
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

function createPartitionBacklogs(partitionOfKey: (key: string, count: number) => number): PartitionBacklogs {
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
          ...{ topic, number, isBehind: false, draining: false },
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
const maxReadShare = 20;

/** Of the first event of a backlog that was not sent. */
interface HeldUp {
  readonly id: bigint;
  readonly isRefused: boolean;
}

/** The backlog is left alone for a while: longer each time that the same event fails. @param readingMs what the try cost */
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

/** All of it got through. */
function endBackoff(backlog: PartitionBacklog): void {
  backlog.failedId = undefined;
  backlog.retryAtMs = 0;
}

/**
 * Where the reading of a pass may begin: behind what waits for others. Whenever one of those is tried again, all is read: what
 * belongs to no backlog is then seen, too.
 */
function firstOf(ready: Iterable<PartitionBacklog>, behind: Iterable<PartitionBacklog>): bigint {
  const tried = new Set(ready);
  const isAll = [...behind].every((backlog) => tried.has(backlog));
  if (isAll || [...tried].some(({ failedId }) => failedId !== undefined)) return 0n;
  return [...tried].reduce((least, { first }) => (first < least ? first : least), lastId);
}

/** An event as far as its backlog is concerned. */
interface Placed {
  readonly eventId: string;
  readonly topic: string | undefined;
  readonly key: string | null;
}

/** One look at all that is in the own backup, in the order of the events. */
export interface Pass {
  /** What may be sent has no lower id. */
  readonly from: bigint;
  /** Whether it may be sent now: nothing that belongs before it is elsewhere. */
  accepts(event: Placed): boolean;
  /** Was not sent, and stays: nothing of its partition is sent after it. `isRefused`: its topic has said so. */
  failed(event: Placed, isRefused: boolean): void;
  /** Nothing more can be sent: the rest need not be read. */
  isOver(): boolean;
  /** `isComplete`: all that was there when the pass began was looked at. @param readingMs what that cost, where nothing was sent */
  end(isComplete: boolean, readingMs: number): void;
}

interface PassParts {
  readonly from: bigint;
  /** Those that it is about, with the last event of each that it may send. */
  readonly ready: ReadonlyMap<PartitionBacklog, bigint>;
  /** Something may be there that belongs to none. */
  readonly isForOrphans: boolean;
  readonly beganMs: number;
  readonly monotonic: () => number;
  readonly backlogOf: (event: Placed) => PartitionBacklog | undefined;
  readonly acceptsOrphan: (event: Placed) => boolean;
  readonly open: (backlog: PartitionBacklog) => void;
  readonly startSpilling: (backlog: PartitionBacklog) => void;
}

function createPass(parts: PassParts): Pass {
  const { ready, backlogOf } = parts;
  const failed = new Map<PartitionBacklog, HeldUp>();
  const unfinished = new Set<PartitionBacklog>();

  function mayBeSent(backlog: PartitionBacklog, id: bigint): boolean {
    // Not past one that has left since the pass began.
    return id <= (ready.get(backlog) as bigint) && id <= backlog.nextFirst;
  }

  return {
    from: parts.from,
    isOver: () => !parts.isForOrphans && failed.size === ready.size,
    accepts(event) {
      const backlog = backlogOf(event);
      if (backlog === undefined) return parts.acceptsOrphan(event);
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

/** Of a partition's events in the queue: they may be sent; wait until others have their outcome; go to the backup. */
export type OrderState = 'open' | 'undecided' | 'behind';

/** What the queue of the main topic is asked and told. */
interface OrderedQueue {
  /** Number of partitions of a topic, as far as it is known. */
  countOf(topic: string): number | undefined;
  /** Whether events without an outcome are in the queue of a partition; `undefined`: of any partition. */
  holds(topic: string, partition: number | undefined): boolean;
  /** The place in time of the first event that waits there behind others in the backup. */
  firstHeld(topic: string, partition: number | undefined): bigint | undefined;
  /** The order state has changed, or there may be room in the backup again. `undefined`: of any topic, of any partition. */
  orderChanged(topic: string | undefined, partition: number | undefined): void;
}

/**
 * Keeps the order of each key while events are in the local backup: later ones of the same topic partition go behind them,
 * until the last one there is acknowledged. A partition is told by the key and the number of partitions that was known when
 * the first one of its topic closed: a topic that grows meanwhile changes nothing.
 */
export interface KeyOrder {
  /** False while nothing is in the backup, or on its way to it: then nobody needs to ask anything else. */
  readonly isGuarding: boolean;
  stateOf(topic: string, partition: number | undefined): OrderState;
  /** The same of the partition of a key. */
  stateOfKey(topic: string, key: string | null): OrderState;
  /** An event is on its way to the next tiers, from this turn on. */
  leaving(failed: FailedEvent): void;
  /** It has its outcome. */
  decided(failed: FailedEvent): void;
  attach(queue: OrderedQueue): void;
}

/** What an event is told that goes to the backup because others of its partition are there. */
export const spilled: SendFailure = {
  kind: 'retriable',
  cause: 'BehindBackup',
  message: 'earlier events of its partition wait in the backup',
  endedBy: 'behind',
};

/** The same, of one that waits in its queue where no tier has room for it: it is not lost yet then. */
export const spilledUnlessFull: SendFailure = { ...spilled, endedBy: 'behind-unless-full' };

export function isSpilled({ endedBy }: SendFailure): boolean {
  return endedBy === 'behind' || endedBy === 'behind-unless-full';
}

/** Nothing is kept in order with the backup: `svc.broker.backup.drain.order: none`, or no drain at all. */
export const noOrder: KeyOrder = {
  isGuarding: false,
  stateOf: () => 'open',
  stateOfKey: () => 'open',
  leaving() {},
  decided() {},
  attach() {},
};

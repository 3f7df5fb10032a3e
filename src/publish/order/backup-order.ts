import type { Clock } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-id.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import { createUnderWay, type Generation } from '../api/under-way.ts';
import { createMemory, type MemoryLimits } from '../memory-limits.ts';
import type { FailedEvent } from '../tier.ts';
import type { KeyOrder, OrderedQueue, OrderState, Release, Way } from './key-order.ts';
import {
  createPartitionBacklogs,
  type Deferred,
  deferredBytes,
  firstOf,
  insertInOrder,
  lastId,
  type PartitionBacklog,
} from './partition-backlogs.ts';
import { createPass, type Pass } from './pass.ts';

export interface BackupOrderOptions {
  readonly partitionOfKey: (key: string, partitionCount: number) => number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Of the events that wait in memory until their way is known. One more goes to the backup. */
  readonly waiting?: MemoryLimits;
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
export type EarlierRun = 'first' | { readonly topics: ReadonlySet<string> };

/** So few of a partition are the last ones: what comes meanwhile waits in memory for them. */
export const lastEvents = 1_000;
const usualWaiting: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

export function createBackupOrder(options: BackupOrderOptions): BackupOrder {
  const { clock, logger } = options;
  const backlogs = createPartitionBacklogs(options.partitionOfKey);
  const memory = createMemory(options.waiting ?? usualWaiting);
  const underWay = createUnderWay();
  const onTheirWay = new Map<FailedEvent, { backlog: PartitionBacklog; generation: Generation }>();
  const say = createQuietLog(logger, clock, { level: 'warn', saysLeftOut: false });
  const topicsSaid = new Set<string>();
  let queue: OrderedQueue | undefined;
  /** Of all topics: not known yet, behind what an earlier process left, or each for itself. */
  let start: 'unknown' | 'behind' | 'known' = 'unknown';
  let startedAtMs = clock.monotonic();
  const deferredAtStart: Deferred[] = [];
  let earlierTopics: ReadonlySet<string> = new Set();
  let isGuarding = true;
  /** Something is in the backup, or on its way, that belongs to no backlog. */
  let hasOrphans = false;

  function guard(): void {
    isGuarding = start !== 'known' || backlogs.size > 0 || earlierTopics.size > 0;
  }

  /** In their order, and each before anything else can come. */
  function release(deferred: Deferred[], way: Release): void {
    for (const { bytes, go } of deferred.splice(0)) {
      memory.give(bytes);
      go(way);
    }
  }

  function fallBehind(backlog: PartitionBacklog): void {
    backlog.isEnding = false;
    if (!backlog.isBehind) {
      backlog.isBehind = true;
      backlog.sinceMs = clock.monotonic();
      if (!topicsSaid.has(backlog.topic)) {
        topicsSaid.add(backlog.topic);
        const message = `topic "${backlog.topic}": events go behind earlier ones of their partition that wait in the backup`;
        say(`behind ${backlog.topic}`, message);
      }
      queue?.heed(backlog.topic);
    }
    release(backlog.deferred, 'behind');
  }

  function open(backlog: PartitionBacklog): void {
    backlogs.remove(backlog);
    guard();
    const { topic } = backlog;
    if (topicsSaid.has(topic) && ![...backlogs.of(topic)].some(({ isBehind }) => isBehind)) {
      topicsSaid.delete(topic);
      logger.info(`topic "${topic}": nothing waits in the backup any more, events go to the topic again`);
    }
    release(backlog.deferred, 'direct');
    queue?.heed(topic);
  }

  function wayOf({ key }: SerializedEvent, topic: string): Way {
    if (start === 'unknown') return 'wait';
    if (start === 'behind' || earlierTopics.has(topic)) return deferredAtStart.length > 0 ? 'wait' : 'behind';
    const backlog = backlogs.find(topic, key);
    if (backlog === undefined) return 'direct';
    const hasRoom = backlog.isBehind && !backlog.isEnding && backlog.deferred.length === 0;
    return hasRoom ? 'behind' : 'wait';
  }

  function defer(deferred: Deferred): void {
    const backlog = backlogs.find(deferred.topic, deferred.event.key);
    if (start !== 'known' || earlierTopics.has(deferred.topic)) insertInOrder(deferredAtStart, deferred);
    else if (backlog === undefined) release([deferred], 'direct');
    else insertInOrder(backlog.deferred, deferred);
  }

  /** Some may have gone to the backup already, for want of room: each is asked for anew. */
  function releaseStart(): void {
    for (const deferred of deferredAtStart.splice(0)) {
      const way = wayOf(deferred.event, deferred.topic);
      if (way === 'wait') defer(deferred);
      else release([deferred], way);
    }
  }

  function giveUpWaiting(): void {
    release(deferredAtStart, 'last');
    for (const backlog of backlogs.all()) {
      release(backlog.deferred, 'last');
      if (backlog.isEnding) fallBehind(backlog);
    }
  }

  const behind = (): PartitionBacklog[] => [...backlogs.all()].filter(({ isBehind }) => isBehind);

  function isReady(backlog: PartitionBacklog): boolean {
    const partition = backlogs.partitionOf(backlog, queue?.countOf(backlog.topic));
    if (backlog.retryAtMs > clock.monotonic()) return false;
    return !earlierTopics.has(backlog.topic) && queue?.holds(backlog.topic, partition) !== true;
  }

  return {
    get isGuarding() {
      return isGuarding;
    },

    wayOf,

    wait({ event, topic }, go) {
      const bytes = deferredBytes(event);
      const hasRoom = memory.take(bytes);
      if (hasRoom) defer({ event, topic, bytes, go });
      else {
        // Those before it go the same way.
        giveUpWaiting();
        go('last');
      }
    },

    giveUpWaiting,

    takeOver() {
      const all = [deferredAtStart, ...[...backlogs.all()].map(({ deferred }) => deferred)];
      return all.flatMap((deferred) => deferred.splice(0));
    },

    stateOf(topic, partition) {
      let state: OrderState = 'open';
      for (const { isBehind } of backlogs.ofPartition(topic, partition, queue?.countOf(topic))) {
        if (isBehind) return 'behind';
        state = 'undecided';
      }
      return state;
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
      onTheirWay.set(failed, { backlog, generation: underWay.begin() });
    },

    stored(failed) {
      const backlog = onTheirWay.get(failed)?.backlog;
      if (backlog === undefined) return;
      backlog.stored++;
      if (!backlog.isBehind) fallBehind(backlog);
    },

    decided(failed) {
      const known = onTheirWay.get(failed);
      if (known === undefined) return;
      onTheirWay.delete(failed);
      const { backlog, generation } = known;
      backlog.pending--;
      if (backlog.pending === 0 && !backlog.isBehind) open(backlog);
      underWay.end(generation);
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
      for (const backlog of behind()) {
        if (!isReady(backlog)) continue;
        // Those for which there was no room.
        release(backlog.deferred, 'behind');
        ready.set(backlog, backlog.latest);
        backlog.nextFirst = lastId;
        backlog.isEnding = backlog.stored - backlog.storedBefore <= lastEvents;
      }
      const beganMs = clock.monotonic();
      const waiting = behind();
      const isForOrphans = hasOrphans || waiting.length === 0;
      hasOrphans = false;
      await underWay.soFar();
      for (const backlog of ready.keys()) backlog.storedBefore = backlog.stored;
      return createPass({
        ...{ ready, isForOrphans, beganMs, open, fallBehind, monotonic: clock.monotonic },
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
        logger.info('the backup of an earlier run is sent first: new events go behind it');
        releaseStart();
        return;
      }
      start = 'known';
      earlierTopics = what.topics;
      guard();
      releaseStart();
    },

    oldestMs() {
      const isLeft = start === 'behind' || earlierTopics.size > 0;
      const times = [...backlogs.all()].filter(({ isBehind }) => isBehind).map(({ sinceMs }) => sinceMs);
      if (isLeft) times.push(startedAtMs);
      return times.length === 0 ? 0 : clock.monotonic() - Math.min(...times);
    },
  };
}

import type { Clock } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-id.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import { createUnderWay, type Generation } from '../api/under-way.ts';
import { createMemory, type MemoryLimits } from '../memory-limits.ts';
import type { FailedEvent } from '../tier.ts';
import type { KeyOrder, OrderedQueue, Release, Standing, Way } from './key-order.ts';
import { createLanes, firstOf, type Held, heldBytes, insertInOrder, type Lane, lastId } from './lanes.ts';
import { createRound, type Round } from './round.ts';

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
  /** In how many milliseconds a round could send something; `Infinity`: not before the leftovers are known anew. */
  nextRoundMs(): number;
  /** Resolves when all that was on its way to the backup before is there: then what is read from it is complete. */
  beginRound(): Promise<Round>;
  /** What an earlier process left comes first. Until this is called for the first time, all events wait. */
  leftovers(what: Leftovers): void;
  /** How long the oldest event has waited in the backup, in milliseconds; 0 where none does. */
  oldestMs(): number;
}

/** `first`: new events go behind them. Else the topics whose leftovers could not be sent; the others have none. */
export type Leftovers = 'first' | { readonly topics: ReadonlySet<string> };

/** So few of a partition are the last ones: what comes meanwhile waits in memory for them. */
export const lastEvents = 1_000;
const usualWaiting: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

export function createBackupOrder(options: BackupOrderOptions): BackupOrder {
  const { clock, logger } = options;
  const lanes = createLanes(options.partitionOfKey);
  const memory = createMemory(options.waiting ?? usualWaiting);
  const underWay = createUnderWay();
  const onTheirWay = new Map<FailedEvent, { lane: Lane; generation: Generation }>();
  const say = createQuietLog(logger, clock, { level: 'warn', saysLeftOut: false });
  const topicsSaid = new Set<string>();
  let queue: OrderedQueue | undefined;
  /** Of all topics: not known yet, behind what an earlier process left, or each for itself. */
  let start: 'unknown' | 'behind' | 'known' = 'unknown';
  let startedAtMs = clock.monotonic();
  const heldAtStart: Held[] = [];
  let leftTopics: ReadonlySet<string> = new Set();
  let isGuarding = true;
  /** Something is in the backup, or on its way, that belongs to no lane. */
  let hasStrays = false;

  function guard(): void {
    isGuarding = start !== 'known' || lanes.size > 0 || leftTopics.size > 0;
  }

  /** In their order, and each before anything else can come. */
  function release(held: Held[], way: Release): void {
    for (const { bytes, go } of held.splice(0)) {
      memory.give(bytes);
      go(way);
    }
  }

  function fallBehind(lane: Lane): void {
    lane.isEnding = false;
    if (!lane.isBehind) {
      lane.isBehind = true;
      lane.sinceMs = clock.monotonic();
      if (!topicsSaid.has(lane.topic)) {
        topicsSaid.add(lane.topic);
        const message = `topic "${lane.topic}": events go behind earlier ones of their partition that wait in the backup`;
        say(`behind ${lane.topic}`, message);
      }
      queue?.heed(lane.topic);
    }
    release(lane.held, 'behind');
  }

  function open(lane: Lane): void {
    lanes.remove(lane);
    guard();
    const { topic } = lane;
    if (topicsSaid.has(topic) && ![...lanes.of(topic)].some(({ isBehind }) => isBehind)) {
      topicsSaid.delete(topic);
      logger.info(`topic "${topic}": nothing waits in the backup any more, events go to the topic again`);
    }
    release(lane.held, 'direct');
    queue?.heed(topic);
  }

  function wayOf({ key }: SerializedEvent, topic: string): Way {
    if (start === 'unknown') return 'wait';
    if (start === 'behind' || leftTopics.has(topic)) return heldAtStart.length > 0 ? 'wait' : 'behind';
    const lane = lanes.find(topic, key);
    if (lane === undefined) return 'direct';
    const hasRoom = lane.isBehind && !lane.isEnding && lane.held.length === 0;
    return hasRoom ? 'behind' : 'wait';
  }

  function holdBack(held: Held): void {
    const lane = lanes.find(held.topic, held.event.key);
    if (start !== 'known' || leftTopics.has(held.topic)) insertInOrder(heldAtStart, held);
    else if (lane === undefined) release([held], 'direct');
    else insertInOrder(lane.held, held);
  }

  /** Some may have gone to the backup already, for want of room: each is asked for anew. */
  function releaseStart(): void {
    for (const held of heldAtStart.splice(0)) {
      const way = wayOf(held.event, held.topic);
      if (way === 'wait') holdBack(held);
      else release([held], way);
    }
  }

  function giveUpWaiting(): void {
    release(heldAtStart, 'last');
    for (const lane of lanes.all()) {
      release(lane.held, 'last');
      if (lane.isEnding) fallBehind(lane);
    }
  }

  const behind = (): Lane[] => [...lanes.all()].filter(({ isBehind }) => isBehind);

  function isReady(lane: Lane): boolean {
    const partition = lanes.partitionOf(lane, queue?.countOf(lane.topic));
    if (lane.retryAtMs > clock.monotonic()) return false;
    return !leftTopics.has(lane.topic) && queue?.holds(lane.topic, partition) !== true;
  }

  return {
    get isGuarding() {
      return isGuarding;
    },

    wayOf,

    wait({ event, topic }, go) {
      const bytes = heldBytes(event);
      const hasRoom = memory.take(bytes);
      if (hasRoom) holdBack({ event, topic, bytes, go });
      else {
        // Those before it go the same way.
        giveUpWaiting();
        go('last');
      }
    },

    giveUpWaiting,

    takeWaiting() {
      const all = [heldAtStart, ...[...lanes.all()].map(({ held }) => held)];
      return all.flatMap((held) => held.splice(0));
    },

    standingOf(topic, partition) {
      let standing: Standing = 'open';
      for (const { isBehind } of lanes.ofPartition(topic, partition, queue?.countOf(topic))) {
        if (isBehind) return 'behind';
        standing = 'undecided';
      }
      return standing;
    },

    leaving(failed) {
      const { event, topic, failure } = failed;
      // Its topic never takes it: like a dead letter, it is out of the order.
      if (failure.kind === 'too_large') {
        hasStrays = true;
        return;
      }
      const lane = lanes.make(topic, event.key, queue?.countOf(topic));
      isGuarding = true;
      lane.undecided++;
      const id = orderOf(event.eventId);
      if (id > lane.latest) lane.latest = id;
      if (id < lane.first) lane.first = id;
      if (id < lane.nextFirst) lane.nextFirst = id;
      onTheirWay.set(failed, { lane, generation: underWay.begin() });
    },

    stored(failed) {
      const lane = onTheirWay.get(failed)?.lane;
      if (lane === undefined) return;
      lane.stored++;
      if (!lane.isBehind) fallBehind(lane);
    },

    decided(failed) {
      const known = onTheirWay.get(failed);
      if (known === undefined) return;
      onTheirWay.delete(failed);
      const { lane, generation } = known;
      lane.undecided--;
      if (lane.undecided === 0 && !lane.isBehind) open(lane);
      underWay.end(generation);
    },

    attach(attached) {
      queue = attached;
    },

    isBehind: () => behind().length > 0,

    nextRoundMs() {
      const all = behind();
      if (hasStrays || all.length === 0) return 0;
      const times = all.filter(({ topic }) => !leftTopics.has(topic)).map(({ retryAtMs }) => retryAtMs);
      return Math.max(0, Math.min(...times) - clock.monotonic());
    },

    async beginRound() {
      /** With the last event of each that this round is about. */
      const ready = new Map<Lane, bigint>();
      for (const lane of behind()) {
        if (!isReady(lane)) continue;
        // Those for which there was no room.
        release(lane.held, 'behind');
        ready.set(lane, lane.latest);
        lane.nextFirst = lastId;
        lane.isEnding = lane.stored - lane.storedBefore <= lastEvents;
      }
      const beganMs = clock.monotonic();
      const waiting = behind();
      const isForStrays = hasStrays || waiting.length === 0;
      hasStrays = false;
      await underWay.soFar();
      for (const lane of ready.keys()) lane.storedBefore = lane.stored;
      return createRound({
        ...{ ready, isForStrays, beganMs, open, fallBehind, monotonic: clock.monotonic },
        from: isForStrays ? 0n : firstOf(ready.keys(), waiting),
        laneOf: ({ topic, key }) => (topic === undefined ? undefined : lanes.find(topic, key)),
        // Without a lane it is what its topic did not take when all others of its partition were through.
        acceptsStray: ({ topic = '' }) => start === 'known' && !leftTopics.has(topic),
      });
    },

    leftovers(what) {
      if (what === 'first') {
        start = 'behind';
        startedAtMs = clock.monotonic();
        logger.info('the backup of an earlier run is sent first: new events go behind it');
        releaseStart();
        return;
      }
      start = 'known';
      leftTopics = what.topics;
      guard();
      releaseStart();
    },

    oldestMs() {
      const isLeft = start === 'behind' || leftTopics.size > 0;
      const times = [...lanes.all()].filter(({ isBehind }) => isBehind).map(({ sinceMs }) => sinceMs);
      if (isLeft) times.push(startedAtMs);
      return times.length === 0 ? 0 : clock.monotonic() - Math.min(...times);
    },
  };
}

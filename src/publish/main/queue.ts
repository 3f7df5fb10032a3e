// main/: the main topic: admission, topic, partition, sender, outcome.

import { type Clock, within } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-fields.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { Broker, SendFailure, SendFailureKind } from '../broker.ts';
import { passingOf } from '../fault.ts';
import { createTickBudget, type MemoryLimits } from '../memory-limits.ts';
import { isSpilled, type KeyOrder, noOrder, spilled } from '../order/backup-order.ts';
import type { Publisher } from '../publisher.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import {
  type Breaker,
  type BreakerSettings,
  breakerOpen,
  createBreaker,
  type RetryPolicy,
  withJitter,
} from './breaker.ts';
import { createClusterWatch } from './cluster-watch.ts';
import {
  type BatchSender,
  type BatchSettings,
  createBatchSender,
  createOrderGate,
  createPartitioner,
  createPartitionQueue,
  createSendStagger,
  type PartitionQueue,
  WaitingEvents,
} from './partition-queue.ts';
import {
  createAdmission,
  createEventOutcomes,
  type EventOutcomes,
  QueuedEvent,
  shutDown,
  stopped,
  timedOut,
  tooManyAtOnce,
} from './queued-event.ts';
import { bytesOf, toRecord } from './record.ts';
import { createPartitionCounts, createTopicRefusals, type PartitionCounts } from './topic-refusals.ts';

export interface QueueOptions {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor' | 'describe' | 'letGo' | 'heldBack'>;
  /** Topic of events that name none. */
  readonly topic: string;
  readonly batch: BatchSettings;
  /** Over all topics. One event more goes to the next tier. */
  readonly buffer: MemoryLimits;
  /** Of the events that wait as earlier ones of their partition are in the backup. One more sends them there, and is lost where that is full. */
  readonly held?: MemoryLimits | undefined;
  /** Sends at once, over all partitions. */
  readonly maxInFlight: number;
  /** An event that is not acknowledged in this time goes to the next tier. */
  readonly deliveryTimeoutMs: number;
  readonly retry: RetryPolicy;
  readonly breaker: BreakerSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs a send as svc's own work: not captured, and without spans of the client's instrumentation. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  /** Where an event goes that was not published. Called in the context of the event's call. */
  readonly next: NextTier;
  readonly onPublished: () => void;
  /** Keeps events in order with those that are in the backup. Default: nothing does. */
  readonly order?: KeyOrder | undefined;
  /** An event for which there is no memory, not even on its way to the next tier. */
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
  /** A send failed, of any number of events. */
  readonly onSendFailed: (kind: SendFailureKind) => void;
  /** An event is sent once more. */
  readonly onRetried: (eventType: string) => void;
}

interface QueueState {
  /** In memory: waiting, under way, or waiting for a retry. */
  readonly events: number;
  readonly bytes: number;
  /** Events for which there was no room. */
  readonly overflows: number;
}

export interface Queue extends Publisher {
  /** Sends at once what waits only for company. */
  flush(): void;
  readonly breaker: Breaker;
  state(): QueueState;
  /** Topics that refuse their events: one line. */
  refusals(): string | undefined;
  /** When the cluster last took a batch, as Unix time in milliseconds; `null`: it has taken none. */
  lastPublishedMs(): number | null;
  /** Somebody else has found the cluster away; `sinceMs`: when that was begun, on the monotonic clock. */
  clusterAway(message: string, sinceMs: number): void;
  /**
   * Sends at once what waits only for company, and waits until everything has its outcome. Towards the end of `deadlineMs`
   * what is not acknowledged goes to the next tier, what is under way too, unless `isWanted` says
   * then that nobody wants an end any more. Admission stays as it is.
   */
  finish(deadlineMs: number, isWanted?: () => boolean): Promise<boolean>;
  /**
   * At the very end of the process, where no promise is heard any more: returns everything that is not acknowledged yet and
   * not with the next tier, for whoever calls it to store. `late` gets each event that comes after it, and returns whether
   * it is stored.
   */
  takeOver(reason: SendFailure, late: (failed: FailedEvent) => boolean): readonly FailedEvent[];
  /** Takes nothing in any more, and finishes: every event has its outcome, at `deadlineMs` at the latest. */
  close(deadlineMs: number): Promise<void>;
}

/** The last part of the time to finish, which the next tiers have for what was not acknowledged: at most this. */
const longestReserveMs = 2_000;
/** So often the first event of those for which the backup has had no room asks for some. */
const roomEveryMs = 1_000;
/** Topics kept although nothing of them is under way; topic names can come from application data. */
const maxIdleTopics = 100;

/**
 * The main topic: events wait in memory in a queue for each partition, and go out in batches, each acknowledged by the
 * broker as a whole. What cannot be published goes to the next tier; the caller is never blocked.
 *
 * The way of an event, each part in a file of its own: `Admission` takes it or refuses it, its `TopicQueue` finds the partition,
 * the `PartitionQueue` there makes batches, the `BatchSender` hands them to the client, and `EventOutcomes` says how it ended.
 * Each is given the parts behind it. Here is what concerns all events at once: their deadlines, giving up, the end.
 */
export function createQueue(options: QueueOptions): Queue {
  const { broker, clock, logger, deliveryTimeoutMs, isolate, order = noOrder } = options;
  const breaker = createBreaker({ ...options.breaker, clock, logger, onOpen: giveUpWaiting });
  const admission = createAdmission({
    ...{ ...options, breaker, onProbeFailed: giveUpWaiting },
    onFirst: () => sender.outside(watch.waiting),
  });
  const { memory } = admission;
  const outcomes = createEventOutcomes({ ...options, admission, order, putBack, onStored });
  const counts = createPartitionCounts((topic) => isolate(() => broker.partitionsFor(topic)), clock);
  const { random = () => 0.5 } = options.breaker;
  const watch = createClusterWatch({
    clock,
    ask: () => isolate(async () => broker.describe()),
    isWaiting: () => memory.events > 0,
    withJitter: (ms) => withJitter(ms, random),
    onSilent: () => breaker.silent('it does not answer'),
    onReturn: () => sender.outside(wake),
  });
  const refusals = createTopicRefusals(clock);
  const sender = createBatchSender({ ...options, counts, breaker, watch, order, refusals });
  const topics = new Map<string, TopicQueue>();
  order.attach({
    countOf: counts.known,
    holds: (topic, partition) => topics.get(topic)?.holds(partition) === true,
    firstHeld: (topic, partition) => topics.get(topic)?.firstHeld(partition),
    orderChanged: (topic, partition) => sender.outside(() => orderChanged(topic, partition)),
  });
  const tick = createTickBudget();
  let expiry: NodeJS.Timeout | undefined;
  let storeLate: ((failed: FailedEvent) => boolean) | undefined;
  /** Events wait that have found the backup full, until anything else could be stored, or the first of them. */
  let isWaitingForRoom = false;
  let roomTimer: NodeJS.Timeout | undefined;
  /** All that waited has been given up, and svc ends. */
  let isOver = false;

  function topicQueue(topic: string): TopicQueue {
    let queue = topics.get(topic);
    if (queue === undefined) {
      const made = createTopicQueue({
        topic,
        batch: options.batch,
        counts,
        sender,
        outcomes,
        onIdle: () => {
          if (topics.size > maxIdleTopics && made.isIdle()) topics.delete(topic);
        },
      });
      queue = made;
      topics.set(topic, queue);
    }
    return queue;
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    for (const topic of [...topics.values()]) topic.abandon(reason, alsoInFlight);
    // Sends may be under way still whose events have gone to the next tier.
    if (memory.events === 0 && breaker.state !== 'CLOSED') broker.letGo?.();
  }

  function giveUpWaiting(): void {
    abandon(breakerOpen, false);
  }

  function orderChanged(topic: string | undefined, partition: number | undefined): void {
    if (topic !== undefined) topics.get(topic)?.orderChanged(partition);
    else for (const each of [...topics.values()]) each.orderChanged(undefined);
  }

  function wake(): void {
    for (const topic of topics.values()) topic.wake();
  }

  function expireAfter(delayMs: number): void {
    sender.outside(() => {
      expiry = setTimeout(expire, delayMs).unref();
    });
  }

  function expire(): void {
    expiry = undefined;
    const nowMs = clock.monotonic();
    const before = memory.events;
    const next = earliest([...topics.values()].map((topic) => topic.expire(nowMs, deliveryTimeoutMs)));
    // Where others got through meanwhile, the cluster is there.
    if (memory.events < before && !sender.hasStoredSince(nowMs - deliveryTimeoutMs))
      breaker.failed(timedOut(deliveryTimeoutMs), true);
    // One that is held may have a time of its own by then.
    if (next !== undefined) expireAfter(Math.max(1, Math.ceil(Math.min(next - nowMs, deliveryTimeoutMs))));
    else if (breaker.state !== 'CLOSED') broker.letGo?.();
  }

  function take(event: SerializedEvent, topic: string): QueuedEvent | SendFailure {
    if (sender.isClosed) return stopped;
    const isHeld = order.isGuarding && order.stateOfKey(topic, event.key) !== 'open';
    const taken = admission.admit(event, topic, isHeld);
    if (!(taken instanceof QueuedEvent)) return taken;
    if (isHeld) tick.add(taken.bytes);
    topicQueue(topic).push(taken);
    if (expiry === undefined) expireAfter(deliveryTimeoutMs);
    return taken;
  }

  function putBack(queued: QueuedEvent): boolean {
    if (isOver || !admission.takeBack(queued)) return false;
    topicQueue(queued.topic).putBack(queued);
    isWaitingForRoom = true;
    tryRoomLater();
    if (expiry === undefined) expireAfter(deliveryTimeoutMs);
    return true;
  }

  function tryRoomLater(): void {
    sender.outside(() => {
      roomTimer ??= setTimeout(tryRoom, roomEveryMs).unref();
    });
  }

  function tryRoom(): void {
    roomTimer = undefined;
    if (!isWaitingForRoom) return;
    if ([...topics.values()].some((topic) => topic.tryRoom())) tryRoomLater();
    else onStored();
  }

  /** There is room again. */
  function onStored(): void {
    if (!isWaitingForRoom) return;
    isWaitingForRoom = false;
    sender.outside(() => orderChanged(undefined, undefined));
  }

  /** Never sent. At the end of the process it has no deadline any more. */
  function unsent(event: SerializedEvent, topic: string, failure: SendFailure): FailedEvent {
    return { event, topic, attempts: 0, failure, record: toRecord(event, clock.now()) };
  }

  function refused(event: SerializedEvent, topic: string, failure: SendFailure): Promise<Outcome> {
    tick.add(bytesOf(event));
    const deadlineAtMs = clock.monotonic() + deliveryTimeoutMs;
    return outcomes.outcomeOfRefused({ ...unsent(event, topic, failure), deadlineAtMs });
  }

  function flush(): void {
    for (const topic of topics.values()) topic.flush();
  }

  async function finish(deadlineMs: number, isWanted = () => true): Promise<boolean> {
    const end = clock.monotonic() + deadlineMs;
    flush();
    const isFinished = await within(deadlineMs - Math.min(deadlineMs / 4, longestReserveMs), outcomes.idle());
    // Events that came after the last one was through have their time still.
    if (isFinished) return true;
    if (!isWanted()) return false;
    isOver = sender.isClosed;
    abandon(shutDown, true);
    return within(Math.max(0, end - clock.monotonic()), outcomes.idle());
  }

  return {
    breaker,
    state: () => ({ events: memory.events, bytes: memory.bytes, overflows: memory.overflows }),
    refusals: refusals.state,
    lastPublishedMs: sender.lastStoredMs,
    clusterAway(message, sinceMs) {
      if (!sender.hasStoredSince(sinceMs)) breaker.silent(message);
    },
    takeOver(reason, late) {
      sender.close();
      storeLate = late;
      const left = outcomes.takeOver();
      abandon(reason, true);
      return left;
    },
    isRefused(event) {
      const known = refusals.of(event.topic ?? options.topic);
      return known !== undefined && !known.isFinal;
    },
    publish(event) {
      const topic = event.topic ?? options.topic;
      if (storeLate !== undefined) {
        const isStored = storeLate(unsent(event, topic, shutDown));
        return Promise.resolve(isStored ? 'backup' : 'lost');
      }
      const taken = take(event, topic);
      if (taken instanceof QueuedEvent) return outcomes.outcomeOf(taken);
      if (!isSpilled(taken) || topics.get(topic)?.spillHeldEvents(event.key) !== false)
        return refused(event, topic, taken);
      options.onLost(event, topic, taken);
      return Promise.resolve('lost');
    },

    rejectIfOverloaded(event) {
      if (tick.isFull) options.onLost(event, event.topic ?? options.topic, tooManyAtOnce);
      return tick.isFull;
    },
    flush,
    finish,
    async close(deadlineMs) {
      sender.close();
      await finish(deadlineMs);
      clearTimeout(expiry);
      clearTimeout(roomTimer);
      watch.close();
    },
  };
}

/** The number of partitions is asked for at most this often when answers say that the topic was created again. */
const recreatedEveryMs = 1_000;

interface TopicQueueOptions {
  readonly topic: string;
  readonly batch: BatchSettings;
  readonly counts: PartitionCounts;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
  /** Nothing may be left here: `isIdle` knows. */
  readonly onIdle: () => void;
}

/** Finds the partition of each event of one topic, and has a queue for each. Methods as those of a `PartitionQueue`. */
interface TopicQueue
  extends Omit<
    PartitionQueue,
    'holds' | 'firstHeld' | 'orderChanged' | 'spillHeldEvents' | 'isSending' | 'takeAll' | 'placed'
  > {
  /** `undefined`: in any partition. */
  holds(partition: number | undefined): boolean;
  /** The place in time of the first event that is held in this partition; `undefined`: in any. */
  firstHeld(partition: number | undefined): bigint | undefined;
  /** For an event of this key. */
  spillHeldEvents(key: string): boolean;
  /** `undefined`: of any partition. */
  orderChanged(partition: number | undefined): void;
}

/**
 * As long as nobody knows how many partitions the topic has (it is just being made, or the cluster is away), its events
 * wait here and go out one by one, placed by the client: the number is asked for before each.
 *
 * Where the number changes, because the topic was made anew or has got more partitions, all that waits is placed anew when the sends under
 * way have ended, in the order in which it came, and before anything later.
 */
export function createTopicQueue(options: TopicQueueOptions): TopicQueue {
  const { topic, batch, counts, sender, outcomes } = options;
  const oneByOne = { ...batch, maxEvents: 1, maxBytes: 1 };
  const partitioner = createPartitioner();
  const partitions = new Map<number | undefined, PartitionQueue>();
  const stagger = createSendStagger(partitions);
  const unplaced = new WaitingEvents();
  const gate = createOrderGate({ topic, partition: undefined, waiting: unplaced, sender, outcomes });
  let isAsking = false;
  /** By which the queues of partitions were filled. */
  let placedBy: number | undefined;
  /** A send has found no such topic or partition: nothing begins until the number is asked for. */
  let isInDoubt = false;
  /** The sends under way are waited for, to place anew what waits. */
  let isMoving = false;
  let wasMissing = false;
  let recreatedAtMs = Number.NEGATIVE_INFINITY;

  function queueOf(partition: number | undefined): PartitionQueue {
    let queue = partitions.get(partition);
    if (queue === undefined) {
      queue = createPartitionQueue({
        topic,
        partition,
        batch: partition === undefined ? oneByOne : batch,
        sender,
        outcomes,
        stagger,
        partitioner,
        // Of one partition, it says nothing about those of others.
        onTopicRefused: (failure) => partition === undefined && settle(unplaced.take(isFree), failure),
        onIdle: () => left(partition),
        mayStart: () => !isInDoubt && !isMoving,
        onDoubt: ({ cause, isRecreated }) =>
          void doubt(isRecreated === true || passingOf(cause) === 'unknown'),
        onRecreated,
        onSent: () => isMoving && move(),
      });
      partitions.set(partition, queue);
    }
    return queue;
  }

  function left(partition: number | undefined): void {
    if (partition === undefined && unplaced.count > 0) void place();
    else options.onIdle();
  }

  const queueFor = ({ event: { key } }: QueuedEvent, count: number | undefined): PartitionQueue =>
    queueOf(count === undefined ? undefined : partitioner.partitionOf(key, count));

  /** One batch of each partition says so. A broker with wrong offsets says so for every batch. */
  function onRecreated(): void {
    const nowMs = sender.nowMs();
    if (nowMs - recreatedAtMs < recreatedEveryMs) return;
    recreatedAtMs = nowMs;
    void doubt(true);
  }

  async function doubt(isMissing: boolean): Promise<void> {
    wasMissing ||= isMissing;
    if (isInDoubt) return;
    isInDoubt = true;
    const count = await counts.ask(topic);
    isInDoubt = false;
    notice(count);
    if (count !== undefined && !isMoving) wasMissing = false;
    if (!isMoving) for (const queue of partitions.values()) queue.placed();
  }

  /** The number that events are placed by now, where it is known. */
  function notice(count: number | undefined): void {
    if (count === undefined || isMoving) return;
    const isOther = placedBy !== undefined && count !== placedBy;
    if (!isOther) placedBy = count;
    else {
      isMoving = true;
      move();
    }
  }

  function move(): void {
    if ([...partitions.values()].some((queue) => queue.isSending)) return;
    const count = counts.known(topic) ?? placedBy;
    // Only a topic that was made anew has nothing of what may be stored.
    const isRecreated = wasMissing || (count ?? 0) < (placedBy ?? 0);
    const first = [...partitions.values()].flatMap((queue) => queue.takeAll(isRecreated));
    const later = isAsking ? [] : unplaced.take(() => true);
    placedBy = count;
    for (const event of [...first, ...later]) queueFor(event, count).push(event);
    isMoving = false;
    wasMissing = false;
    for (const queue of [...partitions.values()]) queue.placed();
    if (isIdle()) options.onIdle();
  }

  async function place(): Promise<void> {
    isAsking = true;
    const count = await counts.ask(topic);
    isAsking = false;
    notice(count);
    // It places them as well.
    if (isMoving) return;
    // Those that have come back meanwhile go first.
    if (partitions.get(undefined)?.isIdle() === false) return;
    const placed = count === undefined ? unplaced.takeBatch(oneByOne) : unplaced.take(() => true);
    for (const event of placed) queueFor(event, count).push(event);
    // All of them may have ended while the number was asked for.
    if (isIdle()) options.onIdle();
  }

  /** Those in which its events may be. */
  const queuesOf = (partition: number | undefined): (PartitionQueue | undefined)[] =>
    partition === undefined
      ? [...partitions.values()]
      : [partitions.get(partition), partitions.get(undefined)];

  const isPlacing = (): boolean =>
    isMoving || isAsking || unplaced.count > 0 || partitions.get(undefined)?.isIdle() === false;

  const isIdle = (): boolean => !isPlacing() && [...partitions.values()].every((queue) => queue.isIdle());

  return {
    push(event) {
      const count = counts.known(topic);
      notice(count);
      const isWaiting = isPlacing();
      if (count !== undefined && !isWaiting) return queueFor(event, count).push(event);
      unplaced.push(event);
      // Earlier ones have found no room there.
      if (![...partitions.values()].some((queue) => queue.isBackupFull())) gate.spillToBackup();
      if (isIdle()) options.onIdle();
      else if (!isWaiting) sender.outside(() => void place());
    },

    putBack(event) {
      const isBehind = unplaced.first !== undefined && timeOf(unplaced.first) < timeOf(event);
      (isBehind ? gate : queueFor(event, counts.known(topic))).putBack(event);
    },

    spillHeldEvents(key) {
      const count = counts.known(topic);
      const partition = count === undefined ? undefined : partitioner.partitionOf(key, count);
      const isFull = queuesOf(partition).some((queue) => queue?.spillHeldEvents() === false);
      return gate.spillHeldEvents() && !isFull;
    },

    isBackupFull: () => gate.isBackupFull || [...partitions.values()].some((queue) => queue.isBackupFull()),

    tryRoom: () => [...partitions.values()].some((queue) => queue.tryRoom()) || gate.tryRoom(),

    flush() {
      for (const queue of partitions.values()) queue.flush();
    },

    expire(nowMs, deliveryTimeoutMs) {
      const deadlines = [...partitions.values()].map((queue) => queue.expire(nowMs, deliveryTimeoutMs));
      const late = sender.explain(topic, timedOut(deliveryTimeoutMs));
      const heldMs = sender.heldUntilMs(topic, undefined) + deliveryTimeoutMs;
      if (unplaced.first !== undefined && nowMs < heldMs) return earliest([...deadlines, heldMs]);
      settle(
        unplaced.take(({ deadlineAtMs }) => deadlineAtMs <= nowMs),
        late,
      );
      return earliest([...deadlines, unplaced.first?.deadlineAtMs]);
    },

    abandon,

    wake() {
      for (const queue of partitions.values()) queue.wake();
    },

    orderChanged(partition) {
      for (const queue of queuesOf(partition)) queue?.orderChanged();
      gate.mayHaveRoom();
      gate.spillToBackup();
      gate.isOpen();
    },

    holds(partition) {
      return unplaced.first?.isHeld === false || queuesOf(partition).some((queue) => queue?.holds());
    },

    firstHeld(partition) {
      const held = [...queuesOf(partition).map((queue) => queue?.firstHeld()), unplaced.firstHeld];
      return earliest(held.map((one) => one && timeOf(one)));
    },

    isIdle,
  };

  function settle(events: readonly QueuedEvent[], reason: SendFailure): void {
    for (const event of events) outcomes.settle(event, event.isHeld ? spilled : reason);
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    // What waits for its place came last.
    const last = unplaced.take((event) => alsoInFlight || isFree(event));
    for (const queue of partitions.values()) queue.abandon(reason, alsoInFlight);
    settle(last, sender.explain(topic, reason));
  }
}

const timeOf = ({ event: { eventId } }: QueuedEvent): bigint => orderOf(eventId);

const isFree = ({ isHeld }: QueuedEvent): boolean => !isHeld;

function earliest<Time extends number | bigint>(times: readonly (Time | undefined)[]): Time | undefined {
  return times.reduce(
    (first, time) => (time === undefined || (first !== undefined && first < time) ? first : time),
    undefined,
  );
}

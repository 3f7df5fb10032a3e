import { orderOf } from '../../ground/event-fields.ts';
import type { SendFailure } from '../broker.ts';
import { passingOf } from '../fault.ts';
import { behindBackup } from '../order/key-order.ts';
import { type BatchSettings, WaitingEvents } from './batch.ts';
import {
  type BatchSender,
  createOrderGate,
  createPartitioner,
  createPartitionQueue,
  createPartitionTurns,
  type PartitionQueue,
} from './partition-queue.ts';
import { type EventOutcomes, type QueuedEvent, timedOut } from './queued-event.ts';
import type { PartitionCounts } from './topic-refusals.ts';

/** The number of partitions is asked for at most this often when answers say that the topic was created again. */
const recreatedEveryMs = 1_000;

export interface TopicQueueOptions {
  readonly topic: string;
  readonly batch: BatchSettings;
  readonly counts: PartitionCounts;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
  /** Nothing may be left here: `isIdle` knows. */
  readonly onIdle: () => void;
}

/** Finds the partition of each event of one topic, and has a queue for each. Methods as those of a `PartitionQueue`. */
export interface TopicQueue
  extends Omit<
    PartitionQueue,
    'holds' | 'firstHeld' | 'orderChanged' | 'makeWay' | 'isSending' | 'takeAll' | 'placed'
  > {
  /** `undefined`: in any partition. */
  holds(partition: number | undefined): boolean;
  /** The place in time of the first event that is held in this partition; `undefined`: in any. */
  firstHeld(partition: number | undefined): bigint | undefined;
  /** For an event of this key. */
  makeWay(key: string): boolean;
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
  const turns = createPartitionTurns(partitions);
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
        turns,
        partitioner,
        // Of one partition, it says nothing about those of others.
        onTopicRefused: (failure) => partition === undefined && settle(unplaced.take(isFree), failure),
        onIdle: () => left(partition),
        mayStart: () => !isInDoubt && !isMoving,
        onDoubt: ({ cause }) => void doubt(passingOf(cause) === 'unknown'),
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
      if (![...partitions.values()].some((queue) => queue.isBackupFull())) gate.goBehind();
      if (isIdle()) options.onIdle();
      else if (!isWaiting) sender.outside(() => void place());
    },

    putBack(event) {
      const isBehind = unplaced.first !== undefined && timeOf(unplaced.first) < timeOf(event);
      (isBehind ? gate : queueFor(event, counts.known(topic))).putBack(event);
    },

    makeWay(key) {
      const count = counts.known(topic);
      const partition = count === undefined ? undefined : partitioner.partitionOf(key, count);
      const isFull = queuesOf(partition).some((queue) => queue?.makeWay() === false);
      return gate.makeWay() && !isFull;
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
      gate.goBehind();
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
    for (const event of events) outcomes.settle(event, event.isHeld ? behindBackup : reason);
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

export function earliest<Time extends number | bigint>(
  times: readonly (Time | undefined)[],
): Time | undefined {
  return times.reduce(
    (first, time) => (time === undefined || (first !== undefined && first < time) ? first : time),
    undefined,
  );
}

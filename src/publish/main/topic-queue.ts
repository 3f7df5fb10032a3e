import type { SendFailure } from '../broker.ts';
import { behindBackup } from '../order/key-order.ts';
import type { BatchSettings } from './batch.ts';
import type { BatchSender } from './batch-sender.ts';
import type { EventOutcomes } from './event-outcomes.ts';
import { timedOut } from './failures.ts';
import type { PartitionCounts } from './partition-counts.ts';
import { createPartitionQueue, type PartitionQueue } from './partition-queue.ts';
import { createPartitionTurns } from './partition-turns.ts';
import { createPartitioner } from './partitioner.ts';
import type { QueuedEvent } from './queued-event.ts';

export interface TopicQueueOptions {
  readonly topic: string;
  readonly batch: BatchSettings;
  readonly counts: PartitionCounts;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle'>;
  /** Nothing may be left here: `isIdle` knows. */
  readonly onIdle: () => void;
}

/** Finds the partition of each event of one topic, and has a queue for each. Methods as those of a `PartitionQueue`. */
export interface TopicQueue extends Omit<PartitionQueue, 'holds'> {
  /** `undefined`: in any partition. */
  holds(partition: number | undefined): boolean;
}

/**
 * As long as nobody knows how many partitions the topic has (it is just being made, or the cluster is away), its events
 * wait here and go out one by one, placed by the client: the number is asked for before each.
 */
export function createTopicQueue(options: TopicQueueOptions): TopicQueue {
  const { topic, batch, counts, sender, outcomes } = options;
  const oneByOne = { ...batch, maxEvents: 1, maxBytes: 1 };
  const partitioner = createPartitioner();
  const partitions = new Map<number | undefined, PartitionQueue>();
  const turns = createPartitionTurns(partitions);
  let unplaced: QueuedEvent[] = [];
  let isAsking = false;

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
        onTopicRefused: (failure) => partition === undefined && dropUnplaced(failure),
        onIdle: () => left(partition),
      });
      partitions.set(partition, queue);
    }
    return queue;
  }

  function left(partition: number | undefined): void {
    if (partition === undefined && unplaced.length > 0) void place();
    else options.onIdle();
  }

  function put(event: QueuedEvent, count: number): void {
    queueOf(partitioner.partitionOf(event.event.key, count)).push(event);
  }

  async function place(): Promise<void> {
    isAsking = true;
    const count = await counts.ask(topic);
    isAsking = false;
    unplaced = unplaced.filter((event) => !event.isSettled);
    if (count !== undefined) for (const event of unplaced.splice(0)) put(event, count);
    else {
      const first = unplaced.shift();
      if (first !== undefined) queueOf(undefined).push(first);
    }
    // All of them may have ended while the number was asked for.
    if (isIdle()) options.onIdle();
  }

  const isPlacing = (): boolean =>
    isAsking || unplaced.length > 0 || partitions.get(undefined)?.isIdle() === false;

  const isIdle = (): boolean => !isPlacing() && [...partitions.values()].every((queue) => queue.isIdle());

  return {
    push(event) {
      const count = counts.known(topic);
      const isWaiting = isPlacing();
      if (count !== undefined && !isWaiting) return put(event, count);
      unplaced.push(event);
      if (!isWaiting) sender.outside(() => void place());
    },

    flush() {
      for (const queue of partitions.values()) queue.flush();
    },

    expire(nowMs, deliveryTimeoutMs) {
      const deadlines = [...partitions.values()].map((queue) => queue.expire(nowMs, deliveryTimeoutMs));
      const due = unplaced.filter((event) => event.deadlineAtMs <= nowMs);
      const late = sender.explain(topic, timedOut(deliveryTimeoutMs));
      for (const event of due) outcomes.settle(event, late);
      unplaced = unplaced.filter((event) => event.deadlineAtMs > nowMs);
      return earliest([...deadlines, unplaced[0]?.deadlineAtMs]);
    },

    abandon,

    wake() {
      for (const queue of partitions.values()) queue.wake();
    },

    heed() {
      for (const queue of partitions.values()) queue.heed();
      if (unplaced.length > 0 && sender.order.stateOf(topic, undefined) === 'behind')
        for (const event of unplaced.splice(0)) outcomes.settle(event, behindBackup);
    },

    holds(partition) {
      if (unplaced.some((event) => !event.isSettled) || partitions.get(undefined)?.holds()) return true;
      if (partition !== undefined) return partitions.get(partition)?.holds() === true;
      return [...partitions.values()].some((queue) => queue.holds());
    },

    isIdle,
  };

  function dropUnplaced(reason: SendFailure): void {
    for (const event of unplaced.splice(0)) outcomes.settle(event, reason);
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    // What waits for its place came last.
    const last = unplaced.splice(0);
    for (const queue of partitions.values()) queue.abandon(reason, alsoInFlight);
    const told = sender.explain(topic, reason);
    for (const event of last) outcomes.settle(event, told);
  }
}

export function earliest(times: readonly (number | undefined)[]): number | undefined {
  return times.reduce(
    (first, time) => (time === undefined || (first !== undefined && first < time) ? first : time),
    undefined,
  );
}

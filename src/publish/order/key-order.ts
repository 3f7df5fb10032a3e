// order/: events of one key stay in their order although some of them go by way of the local backup.

import type { SendFailure } from '../broker.ts';
import type { FailedEvent } from '../tier.ts';

/** Of a partition's events in the queue: they may be sent; wait until others have their outcome; go to the backup. */
export type OrderState = 'open' | 'undecided' | 'behind';

/** What the queue of the main topic is asked and told. */
export interface OrderedQueue {
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
export const behindBackup: SendFailure = {
  kind: 'retriable',
  cause: 'BehindBackup',
  message: 'earlier events of its partition wait in the backup',
  endedBy: 'behind',
};

/** The same, of one that waits in its queue where no tier has room for it: it is not lost yet then. */
export const behindUnlessFull: SendFailure = { ...behindBackup, endedBy: 'behind-unless-full' };

export function isBehindBackup({ endedBy }: SendFailure): boolean {
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

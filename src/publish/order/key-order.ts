// order/: events of one key stay in their order although some of them go by way of the local backup.

import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';
import type { FailedEvent } from '../tier.ts';

/** Of a new event: to its topic; to the backup, behind others of its partition; or that is not known yet. */
export type Way = 'direct' | 'behind' | 'wait';

/** Where an event goes that has waited. `last`: to the backup, and where that is full, it waits no longer. */
export type Release = 'direct' | 'behind' | 'last';

/** Of what is in the queue already: may be sent; waits until others have their outcome; goes to the backup. */
export type OrderState = 'open' | 'undecided' | 'behind';

/** What the queue of the main topic is asked and told. */
export interface OrderedQueue {
  /** Number of partitions of a topic, as far as it is known. */
  countOf(topic: string): number | undefined;
  /** Whether events without an outcome are in the queue of a partition; `undefined`: of any partition. */
  holds(topic: string, partition: number | undefined): boolean;
  /** The state of order of a partition of this topic has changed. */
  heed(topic: string): void;
}

export interface WaitingEvent {
  readonly event: SerializedEvent;
  readonly topic: string;
}

/**
 * Keeps the order of each key while events are in the local backup: later ones of the same topic partition go behind them,
 * until the last one there is acknowledged. A partition is told by the key and the number of partitions that was known when
 * the first one of its topic closed: a topic that grows meanwhile changes nothing.
 */
export interface KeyOrder {
  /** False while nothing is in the backup, or on its way to it: then nobody needs to ask anything else. */
  readonly isGuarding: boolean;
  wayOf(event: SerializedEvent, topic: string): Way;
  /** An event whose way is `wait`. `go` is called once, in the order of arrival. */
  wait(waiting: WaitingEvent, go: (way: Release) => void): void;
  /** All that wait go to the backup, and wait no more. */
  giveUpWaiting(): void;
  /** At the very end of the process: those that wait, for whoever calls it to store. */
  takeOver(): readonly WaitingEvent[];
  stateOf(topic: string, partition: number | undefined): OrderState;
  /** An event is on its way to the next tiers, from this turn on. */
  leaving(failed: FailedEvent): void;
  /** It has its outcome. */
  decided(failed: FailedEvent): void;
  attach(queue: OrderedQueue): void;
}

/** What every event is told that goes to the backup because others of its partition are there. */
export const behindBackup: SendFailure = {
  kind: 'retriable',
  cause: 'BehindBackup',
  message: 'earlier events of its partition wait in the backup',
  endedBy: 'behind',
};

/** The same, of one that waits in memory where the backup has no room: it is not lost yet when no tier takes it. */
export const behindUnlessFull: SendFailure = { ...behindBackup, endedBy: 'behind-unless-full' };

export function isBehindBackup({ endedBy }: SendFailure): boolean {
  return endedBy === 'behind' || endedBy === 'behind-unless-full';
}

/** Nothing is kept in order with the backup: `svc.broker.backup.drain.order: none`, or no drain at all. */
export const noOrder: KeyOrder = {
  isGuarding: false,
  wayOf: () => 'direct',
  wait: (_, go) => go('direct'),
  giveUpWaiting() {},
  takeOver: () => [],
  stateOf: () => 'open',
  leaving() {},
  decided() {},
  attach() {},
};

import type { SendFailure } from '../broker.ts';
import { behindUnlessFull, type OrderState } from '../order/key-order.ts';
import type { BatchSender } from './batch-sender.ts';
import type { QueuedEvent } from './batches/queued-event.ts';
import type { WaitingEvents } from './batches/waiting-events.ts';
import { breakerOpen } from './breaker.ts';
import type { EventOutcomes } from './event-outcomes.ts';

export interface OrderGateOptions {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly waiting: WaitingEvents;
  readonly sender: Pick<BatchSender, 'order' | 'isAway' | 'explain'>;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
}

/** Whether the events that wait in a queue may be sent, while earlier ones of their partition are in the backup, or on their way. */
export interface OrderGate {
  readonly state: OrderState;
  /** They may. Those that were held are so no more from now on, or go to the next tier where the cluster is away. */
  isOpen(): boolean;
  /** Where its state is `behind`, they go to the backup, too. Those for which there is no room come back, and wait for `mayHaveRoom`. */
  goBehind(): void;
  /** There is no room in memory for one more: those that are held go to the backup before it. False: they have found it full. */
  makeWay(): boolean;
  putBack(event: QueuedEvent): void;
  mayHaveRoom(): void;
  /** Events have found the backup full: what comes later waits behind them. */
  readonly isBackupFull: boolean;
  /** The first of those that wait for room tries the backup again. False: there is none. */
  tryRoom(): boolean;
}

export function createOrderGate(options: OrderGateOptions): OrderGate {
  const { topic, partition, waiting, sender, outcomes } = options;
  let isBackupFull = false;

  function settle(failure: SendFailure, isWanted: (event: QueuedEvent) => boolean): void {
    for (const event of waiting.take(isWanted)) outcomes.settle(event, failure);
  }

  const gate: OrderGate = {
    get state() {
      return sender.order.isGuarding ? sender.order.stateOf(topic, partition) : 'open';
    },
    isOpen() {
      if (gate.state !== 'open') return false;
      if (waiting.hasHeld && sender.isAway)
        settle(sender.explain(topic, breakerOpen), ({ isHeld }) => isHeld);
      if (waiting.hasHeld) waiting.freeAll(outcomes.free);
      return true;
    },
    goBehind() {
      if (gate.state === 'behind' && !isBackupFull) settle(behindUnlessFull, () => true);
    },
    makeWay() {
      if (!isBackupFull) settle(behindUnlessFull, ({ isHeld }) => isHeld);
      return !isBackupFull;
    },
    putBack(event) {
      waiting.putBack(event);
      isBackupFull = true;
    },
    mayHaveRoom() {
      isBackupFull = false;
    },
    get isBackupFull() {
      return isBackupFull;
    },
    tryRoom() {
      const { first } = waiting;
      if (!isBackupFull || first === undefined || gate.state !== 'behind') return false;
      settle(behindUnlessFull, (event) => event === first);
      return true;
    },
  };
  return gate;
}

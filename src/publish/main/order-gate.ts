import { behindUnlessFull, type OrderState } from '../order/key-order.ts';
import type { BatchSender } from './batch-sender.ts';
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
  /** They may. Those that were held are so no more, or go to the next tier where the cluster is away. */
  isOpen(): boolean;
  /** Where its state is `behind`, they go to the backup, too. Those for which there is no room come back, and wait for `mayHaveRoom`. */
  goBehind(): void;
  putBack(event: Parameters<WaitingEvents['putBack']>[0]): void;
  mayHaveRoom(): void;
}

export function createOrderGate(options: OrderGateOptions): OrderGate {
  const { topic, partition, waiting, sender, outcomes } = options;
  let isBackupFull = false;

  const gate: OrderGate = {
    get state() {
      return sender.order.isGuarding ? sender.order.stateOf(topic, partition) : 'open';
    },
    isOpen() {
      if (gate.state !== 'open') return false;
      if (waiting.heldCount === 0) return true;
      if (!sender.isAway) waiting.free(outcomes.free);
      else settle(sender.explain(topic, breakerOpen), ({ isHeld }) => isHeld);
      return true;
    },
    goBehind() {
      if (gate.state === 'behind' && !isBackupFull) settle(behindUnlessFull, () => true);
    },
    putBack(event) {
      waiting.putBack(event);
      isBackupFull = true;
    },
    mayHaveRoom() {
      isBackupFull = false;
    },
  };

  function settle(
    failure: Parameters<EventOutcomes['settle']>[1],
    isWanted: Parameters<WaitingEvents['take']>[0],
  ): void {
    for (const event of waiting.take(isWanted)) outcomes.settle(event, failure);
  }

  return gate;
}

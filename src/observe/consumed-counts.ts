import { shared } from '../ground/lifecycle.ts';
import { createEventRows, type EventRows } from './outcomes.ts';

// The results of the events that `consumeOnce` took, and the instruments that show them.

/**
 * The result of an event. `repeated`: the inbox knew it. `ignored`: its type has no handler. `returned`: its partition has moved or
 * this consumer has stopped, so it is handled elsewhere or later.
 */
export const consumedOutcomes = ['handled', 'repeated', 'ignored', 'dead_letter', 'returned'] as const;
export type ConsumedOutcome = (typeof consumedOutcomes)[number];

/** Integers that only grow, except `inHand`. `taken` is the sum of all outcomes and of `inHand`. */
export interface ConsumedCounts extends Readonly<Record<ConsumedOutcome, number>> {
  readonly taken: number;
  readonly retries: number;
  readonly inHand: number;
}

export interface ConsumedRow extends Record<ConsumedOutcome, number> {
  readonly attributes: { readonly consumer: string; readonly eventType: string };
  taken: number;
  retries: number;
  /** Seconds spent in handlers and their transactions. */
  seconds: number;
}

/** The events of one consumer name in this process. */
export interface ConsumedEvents extends EventRows<ConsumedRow> {
  /** Partitions that wait for a retry, or for a handler beyond its time limit. */
  waiting: number;
}

const consumers = shared('consumed-events', () => new Map<string, ConsumedEvents>());

export function consumedBy(consumer: string): ConsumedEvents {
  const known = consumers.get(consumer);
  if (known !== undefined) return known;
  const rows = createEventRows<ConsumedRow>((eventType) => ({
    attributes: Object.freeze({ consumer, eventType }),
    ...{ handled: 0, repeated: 0, ignored: 0, dead_letter: 0, returned: 0 },
    ...{ taken: 0, retries: 0, seconds: 0 },
  }));
  const made: ConsumedEvents = { ...rows, waiting: 0 };
  consumers.set(consumer, made);
  return made;
}

export function allConsumed(): Iterable<readonly [consumer: string, events: ConsumedEvents]> {
  return consumers;
}

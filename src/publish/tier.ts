import type { Outcome } from '../observe/outcomes.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from './broker.ts';

/** An event that did not get to its topic, on its way through the next tiers. */
export interface FailedEvent {
  readonly event: SerializedEvent;
  /** The topic that it was meant for. */
  readonly topic: string;
  /** As it was sent, or would have been: every tier keeps these bytes, this key, these headers. Restored as they are. */
  readonly record: BrokerRecord;
  /** Sends that were tried. 0: it never left (buffer full, breaker open, too late, svc has stopped). */
  readonly attempts: number;
  /** On the monotonic clock: when the time of its delivery is over. A tier in the same cluster tries no longer. */
  readonly deadlineAtMs?: number;
  /** `cause` is the name of the root cause; `message` is one line for an operator and holds no value. */
  readonly failure: SendFailure;
}

/**
 * PORT: a place for events that their topic did not take.
 *
 * - `store` resolves with `true` when the event is safe there, with `false` when the next tier is to be tried. It never
 *   rejects, and takes hold of the event before it returns. Any number may run at once; it bounds its memory by itself.
 * - It is called in the AsyncLocalStorage context of the call that the event is from.
 * - `close` flushes: every `store` has its answer when it resolves, at `deadlineMs` at the latest.
 */
export interface Tier {
  readonly name: 'dlq' | 'backup';
  store(failed: FailedEvent): Promise<boolean>;
  close(deadlineMs: number): Promise<void>;
}

/**
 * What the queue of the main topic calls with each event that it cannot publish: the tiers in their order, the last
 * word being `lost`. Resolves with where the event ended and never rejects.
 */
export type NextTier = (failed: FailedEvent) => Promise<Outcome>;

import type { Outcome } from '../observe/outcomes.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from './broker.ts';

/** An event that did not reach its topic. */
export interface FailedEvent {
  readonly event: SerializedEvent;
  /** The topic it was meant for. */
  readonly topic: string;
  /** Each tier keeps these bytes, key and headers. A restore sends them unchanged. */
  readonly record: BrokerRecord;
  /** Sends that were tried. 0: it was never sent (buffer full, breaker open, too late, svc stopped). */
  readonly attempts: number;
  /** End of its delivery time, on the monotonic clock. A tier in the same cluster does not try after it. */
  readonly deadlineAtMs?: number;
  /** `cause` names the root cause. `message` is one line for an operator, without values. */
  readonly failure: SendFailure;
}

/**
 * PORT: stores events that their topic did not take.
 *
 * - `store` resolves with `true` when the event is stored, and with `false` when the next tier must be tried. It never rejects, and
 *   it references the event before it returns. Any number may run at once. The tier bounds its own memory.
 * - `store` is called in the AsyncLocalStorage context of the call that the event is from.
 * - `close` flushes: each `store` has its answer when it resolves, at `deadlineMs` at the latest.
 */
export interface Tier {
  readonly name: 'dlq' | 'backup';
  store(failed: FailedEvent): Promise<boolean>;
  close(deadlineMs: number): Promise<void>;
}

/** Gives an event that the main queue cannot publish to the tiers in their order. Resolves with where it ended; never rejects. */
export type NextTier = (failed: FailedEvent) => Promise<Outcome>;

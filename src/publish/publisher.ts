import type { Outcome } from '../observe/outcomes.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';

export type { Outcome };

/**
 * PORT: takes one event and says where it ended. Main topic, dead letter topic, backup, retry and queue all implement it,
 * so that tiers are composition.
 *
 * - `publish` is called on the caller's path and returns at once; the promise resolves with the outcome and never rejects.
 * - Any number may run at once. Nothing is dropped without an outcome.
 * - `close` flushes: it resolves when every event has its outcome, at `deadlineMs` at the latest.
 */
export interface Publisher {
  publish(event: SerializedEvent): Promise<Outcome>;
  close(deadlineMs: number): Promise<void>;
}

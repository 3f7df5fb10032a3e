// publish/: from a serialized event to its outcome. On top: the ports, for adapters and for other folders.

import type { Severity } from '../ground/event-fields.ts';
import type { Outcome } from '../observe/outcomes.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';

/**
 * PORT: takes one event and says where it ended. What the pipeline knows of the queue of the main topic, which implements it
 * with everything behind it: retries, the dead letter topic, the backup.
 *
 * - `publish` is called on the caller's path and returns at once; the promise resolves with the outcome and never rejects.
 * - Any number may run at once. Nothing is dropped without an outcome.
 */
export interface Publisher {
  publish(event: SerializedEvent): Promise<Outcome>;
  /** Whether its topic refuses events and is tried a few times still: nobody needs to wait for that. Default: never. */
  isRefused?(event: SerializedEvent): boolean;
  /**
   * Whether there is no memory for it, because the turn of the event loop that brings it has brought too many before: nothing can be
   * sent or stored until that turn is over. Then its loss has been said, and it is not published: a promise would be kept for as
   * long as the turn goes on. Default: never.
   */
  rejectIfOverloaded?(event: SerializedEvent): boolean;
}

/** What can be said about one event that the application publishes by itself. */
export interface PublishOptions {
  /** Default: INFO. */
  readonly severity?: Severity;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string;
  /** Default: the class name of the payload, `Event` where it has none. */
  readonly eventType?: string;
  /** Record key; a number is written as its text. Default: the event id. */
  readonly key?: string | number | bigint;
  /** Milliseconds to wait for the outcome. Default: as long as the event may take, see `publish`. */
  readonly timeoutMs?: number;
  /** Headers of the record, beside those of svc: an object, a `Map`, or the `Headers` of fetch. Null and undefined are left out. They go out in clear. */
  readonly headers?: Readonly<Record<string, HeaderValue>> | ReadonlyMap<string, HeaderValue> | FetchHeaders;
}

type HeaderValue = string | number | bigint | boolean | null | undefined;

/** The `Headers` of fetch, as far as they are read. */
interface FetchHeaders {
  get(name: string): string | null;
  entries(): Iterable<[string, string]>;
}

/**
 * PORT: what application code calls to publish without capture.
 *
 * Resolves when the event is acknowledged, or stored by a later tier; with its outcome and its id.
 * Rejects with an `SvcError` when the event was refused (it cannot be protected, or an option is wrong) or lost: nothing is
 * dropped in silence. One named `TimeoutException` says that the time to wait is over; the event may still arrive.
 */
export interface Producer {
  publish(payload: unknown, options?: PublishOptions): Promise<Published>;
}

export interface Published {
  readonly eventId: string;
  readonly outcome: Outcome;
}

import type { Severity } from '../ground/event-fields.ts';
import type { Outcome } from '../observe/outcomes.ts';

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

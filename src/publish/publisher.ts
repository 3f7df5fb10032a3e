// publish/: from a serialized event to its outcome. The files of this folder are ports, for adapters and other folders.

import type { Severity } from '../ground/event-fields.ts';
import type { Outcome } from '../observe/outcomes.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';

/**
 * PORT: takes one event and returns where it ended. The main queue implements it, with retries, the dead letter topic and the
 * backup behind it.
 *
 * - `publish` is called on the caller's path and returns at once. The promise resolves with the outcome and never rejects.
 * - Any number may run at once. Each event gets an outcome.
 */
export interface Publisher {
  publish(event: SerializedEvent): Promise<Outcome>;
  /** Whether its topic refuses events but is still retried: callers need not wait for that. Default: never. */
  isRefused?(event: SerializedEvent): boolean;
  /**
   * Whether memory is full because one turn of the event loop has published too much: nothing can be sent or stored before it ends.
   * The loss is then reported, and the event must not be published, because its promise would occupy memory until then. Default:
   * never.
   */
  rejectIfOverloaded?(event: SerializedEvent): boolean;
}

/** Options of one published event. */
export interface PublishOptions {
  /** Default: INFO. */
  readonly severity?: Severity;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string;
  /** Default: the class name of the payload, otherwise `Event`. */
  readonly eventType?: string;
  /** Record key; numbers are converted to strings. Default: the event id. */
  readonly key?: string | number | bigint;
  /** Milliseconds to wait for the outcome. Default: see `publish`. */
  readonly timeoutMs?: number;
  /**
   * Additional record headers: an object, a `Map`, or the `Headers` of fetch. Null and undefined are left out. Headers are not
   * encrypted.
   */
  readonly headers?: Readonly<Record<string, HeaderValue>> | ReadonlyMap<string, HeaderValue> | FetchHeaders;
}

type HeaderValue = string | number | bigint | boolean | null | undefined;

/** The part of fetch's `Headers` that svc uses. */
interface FetchHeaders {
  get(name: string): string | null;
  entries(): Iterable<[string, string]>;
}

/**
 * PORT: publishes without capture, for application code.
 *
 * Resolves when the event is acknowledged, or stored by a later tier, with its outcome and id. Rejects with an `SvcError` when the
 * event was refused (it cannot be protected, or an option is wrong) or lost. With the name `TimeoutException` the wait is over, and
 * the event may still arrive.
 */
export interface Producer {
  publish(payload: unknown, options?: PublishOptions): Promise<Published>;
}

export interface Published {
  readonly eventId: string;
  readonly outcome: Outcome;
}

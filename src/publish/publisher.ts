// publish/: from a serialized event to its outcome. On top: the ports, for adapters and for other folders.

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
  isOneTooMany?(event: SerializedEvent): boolean;
}

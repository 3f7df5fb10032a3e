import { AssertionError } from 'node:assert';
import type { ConsumedEvent } from '../consume/consumed-event.ts';

/** One published event, as its consumers read it. What was not known is `null`. */
export type PublishedEvent<Payload = Record<string, unknown>> = ConsumedEvent<Payload>;

/** Throws an `AssertionError` that names the topic, where the bytes are no JSON. */
export function parseEvent<Payload>(topic: string, value: Buffer): PublishedEvent<Payload> {
  try {
    return JSON.parse(value.toString('utf8'));
  } catch {
    throw new AssertionError({ message: `a record in topic "${topic}" is not JSON` });
  }
}

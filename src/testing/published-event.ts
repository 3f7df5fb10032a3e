import { AssertionError } from 'node:assert';
import type { ConsumedEvent } from '../consume/consumed-event.ts';
import { readEnvelope } from '../consumer/read-envelope.ts';

/** One published event, as its consumers read it. What was not known is `null`. */
export type PublishedEvent<Payload = Record<string, unknown>> = ConsumedEvent<Payload>;

/** Throws an `AssertionError` that names the topic, where the value is no JSON. */
export function parseEvent<Payload>(
  topic: string,
  record: {
    readonly value: Buffer;
    readonly headers: Readonly<Record<string, string>>;
    readonly timestamp?: number;
  },
): PublishedEvent<Payload> {
  try {
    return readEnvelope(record);
  } catch {
    throw new AssertionError({ message: `a record in topic "${topic}" is not JSON` });
  }
}

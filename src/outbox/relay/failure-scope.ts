import type { SendFailure } from '../../publish/broker.ts';
import { isOfRecord } from '../../publish/record-fault.ts';

/**
 * Whose fault a failed send is: `message`, of a record in it; `topic`, which refuses all of them; `cluster`, which is away or
 * refuses everything. Rows spend retries for the first alone.
 */
export type FailureScope = 'message' | 'topic' | 'cluster';

const ofTopic = new Set([
  'TOPIC_AUTHORIZATION_FAILED',
  'UNKNOWN_TOPIC_OR_PARTITION',
  'UNKNOWN_TOPIC_ID',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
  // Of the clock, by what the topic takes: the same for all its rows, until the clock is right.
  'INVALID_TIMESTAMP',
  // Of the schema registry: until it answers.
  'SVC_SERIALIZE_REGISTRY_AWAY',
  // Of the client, which knows fewer partitions of the topic than somebody else did.
  'UNKNOWN_PARTITION',
]);

export function scopeOf(failure: SendFailure): FailureScope {
  if (isOfRecord(failure)) return 'message';
  return ofTopic.has(failure.cause) ? 'topic' : 'cluster';
}

import type { SendFailure } from '../../publish/broker.ts';

/**
 * Whose fault a failed send is: `message`, of a record in it; `topic`, which refuses all of them; `cluster`, which is away or
 * refuses everything. Rows spend retries for the first alone.
 */
export type FailureScope = 'message' | 'topic' | 'cluster';

/** Kafka's names. CORRUPT_MESSAGE is also what a compacted topic says of a record that it cannot keep. */
const ofMessage = new Set(['INVALID_RECORD', 'INVALID_TIMESTAMP', 'CORRUPT_MESSAGE']);
const ofTopic = new Set([
  'TOPIC_AUTHORIZATION_FAILED',
  'UNKNOWN_TOPIC_OR_PARTITION',
  'UNKNOWN_TOPIC_ID',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
  // Of the client, which knows fewer partitions of the topic than somebody else did.
  'UNKNOWN_PARTITION',
]);

export function scopeOf({ kind, cause }: SendFailure): FailureScope {
  if (kind === 'too_large' || ofMessage.has(cause)) return 'message';
  return ofTopic.has(cause) ? 'topic' : 'cluster';
}

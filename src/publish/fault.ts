import { SvcError } from '../ground/errors.ts';
import type { SendFailure } from './broker.ts';

/**
 * Whose fault a failed send is, which decides what becomes of the others:
 * - `record`: one in the send cannot be stored; without it the others can;
 * - `topic`: it refuses all of them, because it is not there or this user has no right to it;
 * - `partition`: the client knows fewer partitions of the topic than somebody else did;
 * - `clock`: the time that this machine gave the records is not taken;
 * - `registry`: schemas cannot be had now; the cluster takes the records as they are once it answers;
 * - `cluster`: it is away, or refuses everything.
 */
export type Fault = 'record' | 'topic' | 'partition' | 'clock' | 'registry' | 'cluster';

const notMade = 'SVC_PUBLISH_NOT_A_RECORD';

/** Kafka's names, and svc's own. */
const faults: Readonly<Record<string, Fault>> = {
  INVALID_RECORD: 'record',
  // Also what a compacted topic says of a record that it cannot keep.
  CORRUPT_MESSAGE: 'record',
  [notMade]: 'record',
  SVC_SERIALIZE_SCHEMA: 'record',
  SVC_SERIALIZE_SCHEMA_MISFIT: 'record',
  SVC_SERIALIZE_SCHEMA_REFUSED: 'record',
  UNKNOWN_TOPIC_OR_PARTITION: 'topic',
  UNKNOWN_TOPIC_ID: 'topic',
  TOPIC_AUTHORIZATION_FAILED: 'topic',
  INVALID_TOPIC_EXCEPTION: 'topic',
  POLICY_VIOLATION: 'topic',
  UNKNOWN_PARTITION: 'partition',
  // Of the making of topics, which the brokers do not do for now.
  THROTTLING_QUOTA_EXCEEDED: 'topic',
  INVALID_TIMESTAMP: 'clock',
  SVC_SERIALIZE_REGISTRY_AWAY: 'registry',
};

/** What the cluster says of a topic or partition that may be there in a moment; nothing of the send was stored. */
type Passing = 'unknown' | 'without leader' | 'moved' | 'without replicas';

const passing: Readonly<Record<string, Passing>> = {
  UNKNOWN_TOPIC_OR_PARTITION: 'unknown',
  UNKNOWN_TOPIC_ID: 'unknown',
  LEADER_NOT_AVAILABLE: 'without leader',
  THROTTLING_QUOTA_EXCEEDED: 'without leader',
  NOT_LEADER_OR_FOLLOWER: 'moved',
  NOT_LEADER_FOR_PARTITION: 'moved',
  NOT_ENOUGH_REPLICAS: 'without replicas',
};

/** `undefined`: it does not pass by itself. @param cause as the client names it */
export function passingOf(cause = ''): Passing | undefined {
  return Object.hasOwn(passing, cause) ? passing[cause] : undefined;
}

/** Whether the topic may have another number of partitions than was known. */
export function doubtsCount({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('UNKNOWN_');
}

/** Whether it is about one topic, and says nothing of the connection or the cluster. @param cause as the client names it */
export function isOfTopic(cause = ''): boolean {
  return faults[cause] === 'topic' || passingOf(cause) === 'without leader';
}

/** Whether the cluster has no such topic, or can have none. @param cause as the client names it */
export function isNoTopic(cause = ''): boolean {
  return passingOf(cause) === 'unknown' || cause === 'INVALID_TOPIC_EXCEPTION';
}

export function faultOf({ kind, cause }: Pick<SendFailure, 'kind' | 'cause'>): Fault {
  if (kind === 'too_large') return 'record';
  return Object.hasOwn(faults, cause) ? (faults[cause] as Fault) : 'cluster';
}

/** Whether the cluster has given this answer: other refusals are svc's or its client's, and say nothing about the cluster. */
export function isAnswer(failure: SendFailure): boolean {
  if (failure.cause === 'INVALID_TOPIC_EXCEPTION') return false;
  const fault = faultOf(failure);
  return (fault === 'record' && !isNotMade(failure)) || fault === 'topic' || fault === 'clock';
}

/** Whether the record was not even made: nothing was asked of the cluster, and no try will go better. */
export function isNotMade({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('SVC_') && faults[cause] === 'record';
}

/** `says`: without a value of the record. */
export function notARecord(says: string): SvcError {
  return new SvcError(notMade, `it cannot be encoded as a record: ${says}`);
}

/** As the failure of a send. */
export function notMadeFailure(says: string): SendFailure {
  return { kind: 'fatal', cause: notMade, message: notARecord(says).message };
}

/** Makes or encodes records. Whatever is thrown meanwhile is a fault of one of them, never of the cluster. */
export function makeRecords<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    // Messages of Node quote values.
    throw notARecord(nameOf(error));
  }
}

/** The name of an error. Its message may hold a payload. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

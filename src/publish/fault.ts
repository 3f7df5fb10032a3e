import { SvcError } from '../ground/errors.ts';
import type { SendFailure } from './broker.ts';

/**
 * The cause of a failed send. It decides what happens to other events:
 * - `record`: a record in the send cannot be stored; the others can without it;
 * - `topic`: it refuses all events, because it does not exist or this user has no right to it;
 * - `partition`: the client knows fewer partitions of the topic than svc;
 * - `clock`: the broker refuses the timestamps of this machine;
 * - `registry`: the schema registry does not answer; the cluster takes the records once it does;
 * - `cluster`: it is away, or refuses everything.
 */
export type Fault = 'record' | 'topic' | 'partition' | 'clock' | 'registry' | 'cluster';

const notMade = 'SVC_PUBLISH_NOT_A_RECORD';

/** Error names of Kafka and svc. */
const faults: Readonly<Record<string, Fault>> = {
  INVALID_RECORD: 'record',
  // Compacted topics also answer this to a record without a key.
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
  // The brokers throttle the creation of topics.
  THROTTLING_QUOTA_EXCEEDED: 'topic',
  INVALID_TIMESTAMP: 'clock',
  SVC_SERIALIZE_REGISTRY_AWAY: 'registry',
};

/** Temporary answers about a topic or partition. Nothing of the send was stored. */
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

/**
 * `undefined`: the error is not temporary.
 * @param cause as named by the client
 */
export function passingOf(cause = ''): Passing | undefined {
  return Object.hasOwn(passing, cause) ? passing[cause] : undefined;
}

/** Whether the topic's number of partitions may differ from the known one. */
export function doubtsCount({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('UNKNOWN_');
}

/**
 * Whether the topic does not exist, or its name is invalid.
 * @param cause as named by the client
 */
export function isNoTopic(cause = ''): boolean {
  return passingOf(cause) === 'unknown' || cause === 'INVALID_TOPIC_EXCEPTION';
}

export function faultOf({ kind, cause }: Pick<SendFailure, 'kind' | 'cause'>): Fault {
  if (kind === 'too_large') return 'record';
  return Object.hasOwn(faults, cause) ? (faults[cause] as Fault) : 'cluster';
}

/** Whether the cluster gave this answer. Refusals by svc or its client say nothing about the cluster. */
export function isAnswer(failure: SendFailure): boolean {
  if (failure.cause === 'INVALID_TOPIC_EXCEPTION') return false;
  const fault = faultOf(failure);
  return (fault === 'record' && !isNotMade(failure)) || fault === 'topic' || fault === 'clock';
}

/** Whether svc could not make the record: nothing was sent, and no retry can help. */
export function isNotMade({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('SVC_') && faults[cause] === 'record';
}

/** `says` must not contain values of the record. */
function notARecord(says: string): SvcError {
  return new SvcError(notMade, `it cannot be encoded as a record: ${says}`);
}

/** The failure of a send. */
export function notMadeFailure(says: string): SendFailure {
  return { kind: 'fatal', cause: notMade, message: notARecord(says).message };
}

/** Makes or encodes records. An error is the fault of a record, never of the cluster. */
export function makeRecords<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    // Messages of Node quote values.
    throw notARecord(nameOf(error));
  }
}

/** The name of an error. Its message may contain a payload. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

import { SvcError } from '../ground/errors.ts';
import type { SendFailure } from './broker.ts';

const notMade = 'SVC_PUBLISH_NOT_A_RECORD';
/** Its schema cannot be had, or it does not fit it. */
const notEncoded = new Set([
  'SVC_SERIALIZE_SCHEMA',
  'SVC_SERIALIZE_SCHEMA_MISFIT',
  'SVC_SERIALIZE_SCHEMA_REFUSED',
]);
const registryAway = 'SVC_SERIALIZE_REGISTRY_AWAY';

/** Kafka's names. CORRUPT_MESSAGE is also what a compacted topic says of a record that it cannot keep. */
const byKafka = new Set(['INVALID_RECORD', 'CORRUPT_MESSAGE']);

/** Whether a record in the send is at fault, and not its topic or the cluster: without it, the others can be sent. */
export function isOfRecord({ kind, cause }: SendFailure): boolean {
  return kind === 'too_large' || isNotMade({ cause }) || byKafka.has(cause);
}

/** Neither a fault of the records nor of the cluster, which takes them as they are once the registry answers. */
export function isOfRegistry({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause === registryAway;
}

/** Kafka does not take the time of the records, which svc gives them by the machine's clock: no fault of theirs. */
export function isOfClock({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause === 'INVALID_TIMESTAMP';
}

/** Whether the record was not even made: nothing was asked of the cluster, and no try will go better. */
export function isNotMade({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause === notMade || notEncoded.has(cause);
}

/** `says`: without a value of the record. */
export function notARecord(says: string): SvcError {
  return new SvcError(notMade, `it cannot be written as a record: ${says}`);
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
    throw notARecord(error instanceof Error ? error.name : typeof error);
  }
}

import { SvcError } from '../../ground/errors.ts';
import type { SendFailure } from '../../publish/broker.ts';
import {
  connectionClosed,
  connectionTimedOut,
  type FailureScene,
  invalidTopic,
  mechanismNotOffered,
  otherReason,
  protocolReason,
  type Reason,
  refusedUser,
  requestTimedOut,
  socketReason,
  withoutToken,
} from '../kafka/failure-lines.ts';
import { TokenError } from '../kafka/token/request-token.ts';

/** An error of kafkajs, of Node's sockets, or whatever else was thrown. */
interface Cause {
  readonly name?: string;
  readonly message?: string;
  /** Of the Kafka protocol, such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly type?: string;
  /** Of Node, such as `ECONNREFUSED`; a number in errors of the Kafka protocol. */
  readonly code?: string | number;
  readonly broker?: string;
  readonly cause?: unknown;
}

const wrappers = new Set(['KafkaJSNumberOfRetriesExceeded', 'KafkaJSNonRetriableError']);

/** The error inside the wrappers of kafkajs, whose own `retriable` flag is wrong as often as not. */
export function rootCause(error: unknown): Cause {
  let cause = (error ?? {}) as Cause;
  while (wrappers.has(cause.name ?? '') && typeof cause.cause === 'object' && cause.cause !== null)
    cause = cause.cause;
  return cause;
}

/** kafkajs gives these the names of old. */
const renamed: Readonly<Record<string, string>> = {
  GROUP_COORDINATOR_NOT_AVAILABLE: 'COORDINATOR_NOT_AVAILABLE',
  GROUP_LOAD_IN_PROGRESS: 'COORDINATOR_LOAD_IN_PROGRESS',
  NOT_COORDINATOR_FOR_GROUP: 'NOT_COORDINATOR',
};

/** The name of an error of Kafka's protocol, where it was Kafka that refused. */
export function protocolErrorIn(error: unknown): string | undefined {
  const { type } = rootCause(error);
  return type === undefined ? undefined : (renamed[type] ?? type);
}

export function toSendFailure(error: unknown, scene: FailureScene): SendFailure {
  const cause = rootCause(error);
  const own: unknown = cause;
  if (own instanceof SvcError && !(own instanceof TokenError))
    return { kind: 'fatal', cause: own.code, message: own.message };
  const token = tokenErrorIn(error);
  if (token !== undefined) return withoutToken(token);
  const { kind, message, cause: name } = reasonOf(cause, scene);
  return { kind, message, cause: name ?? cause.type ?? codeOf(cause) ?? cause.name ?? 'Error' };
}

/** kafkajs wraps it, as whatever else goes wrong when it signs in. */
function tokenErrorIn(error: unknown): TokenError | undefined {
  for (let each = error as Cause | undefined; each !== undefined; each = each.cause as Cause | undefined)
    if (each instanceof TokenError) return each;
  return undefined;
}

const codeOf = (cause: Cause): string | undefined =>
  typeof cause.code === 'string' ? cause.code : undefined;

function reasonOf(cause: Cause, scene: FailureScene): Reason {
  const { name, message, type, broker } = cause;
  if (name === 'KafkaJSRequestTimeoutError' || name === 'KafkaJSLockTimeout')
    return requestTimedOut(scene, broker);
  if (name === 'KafkaJSSASLAuthenticationError')
    return message?.includes('not supported by the server') ? mechanismNotOffered(scene) : refusedUser(scene);
  if (type !== undefined) return protocolReason(type, scene);
  const code = codeOf(cause);
  if (name === 'KafkaJSConnectionError' && code === undefined && message === 'Connection timeout')
    return connectionTimedOut(scene, broker);
  if (name === 'KafkaJSConnectionClosedError') return connectionClosed(scene, broker);
  const known = code === undefined ? undefined : socketReason(code, scene, broker);
  if (known !== undefined) return known;
  if (message === 'Invalid topic') return invalidTopic(scene);
  return otherReason(code ?? message?.split('\n')[0] ?? 'no reason given', scene);
}

import { SvcError } from '../../ground/errors.ts';
import type { SendFailure } from '../../publish/broker.ts';
import { BrokerError, NoAnswer } from './cluster/broker-error.ts';
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
} from './failure-lines.ts';
import { TokenError } from './token/request-token.ts';

/** An error of svc, of a client, of Node's sockets, or whatever else was thrown. */
interface Cause {
  readonly name?: string;
  readonly message?: string;
  /** Of Node, such as `ECONNREFUSED`, or of `@platformatic/kafka`, such as `PLT_KFK_NETWORK`; a number in errors of Kafka's protocol. */
  readonly code?: string | number;
  /** Of Kafka's protocol, such as `UNKNOWN_TOPIC_OR_PARTITION`, as svc and kafkajs have it. */
  readonly type?: string;
  /** The same of `@platformatic/kafka`. */
  readonly apiId?: string;
  /** Address, in errors of kafkajs. */
  readonly broker?: string;
  readonly cause?: unknown;
  readonly errors?: readonly unknown[];
}

const ownCodes = 'PLT_KFK_';
const kafkajsRefusal = 'KafkaJSSASLAuthenticationError';
const platformaticRefusal = 'PLT_KFK_AUTHENTICATION';

/** kafkajs gives these the names of old. */
const renamed: Readonly<Record<string, string>> = {
  GROUP_COORDINATOR_NOT_AVAILABLE: 'COORDINATOR_NOT_AVAILABLE',
  GROUP_LOAD_IN_PROGRESS: 'COORDINATOR_LOAD_IN_PROGRESS',
  NOT_COORDINATOR_FOR_GROUP: 'NOT_COORDINATOR',
};

export function toSendFailure(error: unknown, scene: FailureScene): SendFailure {
  const causes = allOf(error);
  const token = causes.find((cause) => cause instanceof TokenError);
  if (token instanceof TokenError) return withoutToken(token);
  const own = causes.find((cause) => cause instanceof SvcError);
  if (own instanceof SvcError) return { kind: 'fatal', cause: own.code, message: own.message };
  const { kind, message, cause } = reasonOf(causes, scene);
  return { kind, message, cause: cause ?? protocolError(causes) ?? socketCode(causes) ?? nameOf(causes) };
}

/** The name of an error of Kafka's protocol, where it was Kafka that refused. */
export const protocolErrorIn = (error: unknown): string | undefined => protocolError(allOf(error));

/** Whether a broker has said it, rather than nobody anything. */
export function isAnswer(error: unknown): boolean {
  const causes = allOf(error);
  return protocolError(causes) !== undefined || isRefusedUser(causes);
}

/** What Node says of the connection. */
export const socketCodeIn = (error: unknown): string | undefined => socketCode(allOf(error));

function protocolError(causes: readonly Cause[]): string | undefined {
  const type = causes.find((cause) => typeof (cause.type ?? cause.apiId) === 'string');
  const name = type?.type ?? type?.apiId;
  return name === undefined ? undefined : (renamed[name] ?? name);
}

function socketCode(causes: readonly Cause[]): string | undefined {
  const isCode = ({ code }: Cause): boolean => typeof code === 'string' && !code.startsWith(ownCodes);
  return causes.find(isCode)?.code as string | undefined;
}

/** As kafkajs calls what happened; the other client has no names of its own for it. */
function nameOf(causes: readonly Cause[]): string {
  return causes.findLast(({ name }) => name?.startsWith('KafkaJS'))?.name ?? 'ConnectionError';
}

const isRefusedUser = (causes: readonly Cause[]): boolean =>
  causes.some(({ name, code }) => name === kafkajsRefusal || code === platformaticRefusal);

/** Clients wrap errors in errors, and the outermost says the least. */
function allOf(error: unknown): Cause[] {
  if (typeof error !== 'object' || error === null) return [];
  const { cause, errors } = error as Cause;
  return [error as Cause, ...allOf(cause), ...(errors ?? []).flatMap(allOf)];
}

function reasonOf(causes: readonly Cause[], scene: FailureScene): Reason {
  const says = (text: string): boolean => causes.some(({ message }) => message?.includes(text));
  const isNamed = (...names: readonly string[]): boolean =>
    causes.some(({ name = '' }) => names.includes(name));
  const at = causes.find((cause) => cause instanceof BrokerError || cause.broker !== undefined)?.broker;
  const late = causes.find((cause) => cause instanceof NoAnswer);
  if (late instanceof NoAnswer) return requestTimedOut(scene, at, late.limitMs);
  if (isNamed(kafkajsRefusal))
    return says('not supported by the server') ? mechanismNotOffered(scene) : refusedUser(scene);
  const type = protocolError(causes);
  if (type !== undefined) return protocolReason(type, scene);
  if (isNamed('KafkaJSRequestTimeoutError', 'KafkaJSLockTimeout') || says('Request timed out'))
    return requestTimedOut(scene, at);
  const code = socketCode(causes);
  if (says(' timed out') || (code === undefined && says('Connection timeout')))
    return connectionTimedOut(scene, at);
  const known = code === undefined ? undefined : socketReason(code, scene, at);
  if (known !== undefined) return known;
  const isClosed = ['onnection closed', 'Broker requires TLS', 'closed by svc'].some(says);
  if (isClosed || isNamed('KafkaJSConnectionClosedError')) return connectionClosed(scene, at);
  if (isRefusedUser(causes)) return refusedUser(scene);
  if (says('Invalid topic')) return invalidTopic(scene);
  return otherReason(code ?? causes.at(-1)?.message?.split('\n')[0] ?? 'no reason given', scene);
}

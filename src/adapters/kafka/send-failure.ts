import { SvcError } from '../../ground/errors.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import type { SendFailure, SendFailureKind, SendResult } from '../../publish/broker.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { TokenError } from './token.ts';

/** An error of svc, a client or Node's sockets, or any other thrown value. */
interface Cause {
  readonly name?: string;
  readonly message?: string;
  /** `ECONNREFUSED` of Node, `PLT_KFK_NETWORK` of `@platformatic/kafka`, or a number of Kafka's protocol. */
  readonly code?: string | number;
  /** Of Kafka's protocol, such as `UNKNOWN_TOPIC_OR_PARTITION`, in errors of svc and kafkajs. */
  readonly type?: string;
  /** The same in errors of `@platformatic/kafka`. */
  readonly apiId?: string;
  /** Address, in errors of kafkajs. */
  readonly broker?: string;
  readonly cause?: unknown;
  readonly errors?: readonly unknown[];
}

const ownCodes = 'PLT_KFK_';
const kafkajsRefusal = 'KafkaJSSASLAuthenticationError';
const platformaticRefusal = 'PLT_KFK_AUTHENTICATION';

/** kafkajs uses the old names of these. */
const renamed: Readonly<Record<string, string>> = {
  GROUP_COORDINATOR_NOT_AVAILABLE: 'COORDINATOR_NOT_AVAILABLE',
  GROUP_LOAD_IN_PROGRESS: 'COORDINATOR_LOAD_IN_PROGRESS',
  NOT_COORDINATOR_FOR_GROUP: 'NOT_COORDINATOR',
};

/** Transient answers of a cluster that starts, or has just lost its controller or a coordinator. */
export const passingRefusals: ReadonlySet<string> = new Set([
  ...['COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR', 'NOT_CONTROLLER'],
  ...['REQUEST_TIMED_OUT', 'CONCURRENT_TRANSACTIONS', 'UNKNOWN_SERVER_ERROR'],
]);

export function toSendFailure(error: unknown, scene: FailureScene): SendFailure {
  const causes = allOf(error);
  const token = causes.find((cause) => cause instanceof TokenError);
  if (token instanceof TokenError) return withoutToken(token);
  const own = causes.find((cause) => cause instanceof SvcError);
  if (own instanceof SvcError) return { kind: 'fatal', cause: own.code, message: own.message };
  const { kind, message, cause } = reasonOf(causes, scene);
  return { kind, message, cause: cause ?? protocolError(causes) ?? socketCode(causes) ?? nameOf(causes) };
}

/** Kafka's name of the error, if Kafka refused. */
export const protocolErrorIn = (error: unknown): string | undefined => protocolError(allOf(error));

/** Whether a broker has answered, as opposed to no answer at all. */
export function isAnswer(error: unknown): boolean {
  const causes = allOf(error);
  return protocolError(causes) !== undefined || isRefusedUser(causes);
}

/** Node's code for the connection. */
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

/** kafkajs's name of the error; the other client has no names for it. */
function nameOf(causes: readonly Cause[]): string {
  return causes.findLast(({ name }) => name?.startsWith('KafkaJS'))?.name ?? 'ConnectionError';
}
export function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
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

/** A failed request to one broker. `cause` says why. */
export class BrokerError extends Error {
  readonly broker: string;

  constructor(broker: string, cause: unknown) {
    super('a request to Kafka failed', { cause });
    this.broker = broker;
  }
}

export class NoAnswer extends Error {
  readonly limitMs: number;

  constructor(limitMs: number) {
    super(`no answer within ${limitMs} ms`);
    this.limitMs = limitMs;
  }
}

export class NoCommonVersion extends Error {
  constructor(request: string) {
    super(`svc and this Kafka share no version of ${request} in common`);
  }
}

interface FailureScene {
  readonly options: KafkaClientOptions;
  readonly topic?: string;
  /** Whether a produce request may have left for the broker. */
  readonly written: boolean;
}

/** The fate of the records, and the line for the operator. `cause`: if it differs from the client's. */
interface Reason {
  readonly kind: SendFailureKind;
  readonly message: string;
  readonly cause?: SendFailure['cause'];
}

const checkNetwork = 'check that Kafka runs there, svc.broker.bootstrap-servers, and the network';

const all = ({ options }: FailureScene): string => options.brokers.join(', ');
const topicName = ({ topic }: FailureScene): string =>
  topic === undefined ? 'the topic' : `topic ${JSON.stringify(topic)}`;
/** Until a produce request was written, nothing can have been stored. */
const kindOf = ({ written }: FailureScene): SendFailureKind => (written ? 'unknown_outcome' : 'retriable');

/** No token to sign in with: nothing was sent. */
function withoutToken({ isRetriable, message, code }: TokenError): SendFailure {
  return { kind: isRetriable ? 'retriable' : 'fatal', cause: code, message };
}

function invalidTopic(scene: FailureScene): Reason {
  const message = topicNamePattern.test(scene.topic ?? '')
    ? `${topicName(scene)} is internal to Kafka: clients cannot write to it`
    : `Kafka refuses the name of ${topicName(scene)}: ${topicNameForm}`;
  return { kind: 'fatal', message, cause: 'INVALID_TOPIC_EXCEPTION' };
}

function requestTimedOut(
  scene: FailureScene,
  address = all(scene),
  limitMs = scene.options.requestTimeoutMs,
): Reason {
  const message = `no answer from Kafka (${address}) within ${limitMs} ms: check the broker and the network, or raise svc.broker.request-timeout-ms`;
  return { kind: kindOf(scene), message, cause: 'TimeoutException' };
}

function connectionTimedOut(scene: FailureScene, address = all(scene)): Reason {
  const message = `${address} did not accept a connection within ${scene.options.connectionTimeoutMs} ms: ${checkNetwork}`;
  return { kind: kindOf(scene), message, cause: 'TimeoutException' };
}

function connectionClosed(scene: FailureScene, address = all(scene)): Reason {
  const message = scene.written ? `${address} closed the connection` : closedAtOnce(scene, address);
  return { kind: kindOf(scene), message };
}

function closedAtOnce({ options }: FailureScene, address: string): string {
  const where = `${address} closed the connection before it was usable`;
  if (options.tls !== undefined)
    return `${where}: the port may not use TLS (svc.broker.tls), or may need another client certificate`;
  if (options.sasl !== undefined)
    return `${where}: the port may need TLS (svc.broker.tls), or may not be a Kafka port`;
  return `${where}: the port may need TLS (svc.broker.tls) or a user (svc.broker.sasl), or may not be a Kafka port`;
}

/** By the code of an error of Node's sockets and TLS; `undefined` for an unknown code. */
function socketReason(code: string, scene: FailureScene, address?: string): Reason | undefined {
  if (isCertificateProblem(code)) return { kind: 'fatal', message: untrusted(address ?? all(scene), code) };
  if (code === 'ECONNRESET' && !scene.written) return connectionClosed(scene, address);
  if (!unreachable.has(code)) return undefined;
  return { kind: kindOf(scene), message: cannotReach(scene, address, code) };
}

function otherReason(detail: string, scene: FailureScene): Reason {
  return { kind: kindOf(scene), message: `Kafka failed at ${all(scene)} (${detail})` };
}

const unreachable = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ETIMEDOUT'],
  'EADDRNOTAVAIL',
]);

function cannotReach(scene: FailureScene, address: string | undefined, code: string): string {
  if (address === undefined || scene.options.brokers.includes(address))
    return `cannot reach Kafka at ${all(scene)} (${code}): ${checkNetwork}`;
  return `cannot reach ${address} (${code}), an address that Kafka advertises: check that broker and its advertised.listeners`;
}

const refusedToken =
  'Kafka refused the token (OAUTHBEARER): check its issuer, audience, scope and lifetime, and svc.broker.sasl.oauthbearer';

const mechanismOf = ({ options }: FailureScene): string => (options.sasl?.mechanism ?? 'sasl').toUpperCase();

function mechanismNotOffered(scene: FailureScene): Reason {
  const message = `Kafka does not offer ${mechanismOf(scene)} on this port: check svc.broker.sasl.mechanism`;
  return { kind: 'fatal', message };
}

function refusedUser(scene: FailureScene): Reason {
  const { sasl } = scene.options;
  if (sasl?.mechanism === 'oauthbearer') return { kind: 'fatal', message: refusedToken };
  const user = sasl?.username ?? '';
  const message = `Kafka refused the user "${user}" (${mechanismOf(scene)}): check svc.broker.sasl.username and svc.broker.sasl.password`;
  return { kind: 'fatal', message };
}

function isCertificateProblem(code: string): boolean {
  return /CERT|SELF_SIGNED|^UNABLE_TO_|^ERR_TLS|^ERR_SSL|^ERR_OSSL|^EPROTO$|^CRL_|^HOSTNAME_MISMATCH$|^INVALID_CA$/.test(
    code,
  );
}

function untrusted(where: string, code: string): string {
  if (/^EPROTO$|^ERR_SSL_WRONG_VERSION|PACKET_LENGTH/.test(code))
    return `${where} does not use TLS (${code}): check the port and svc.broker.tls`;
  if (/^ERR_SSL.*ALERT|^ERR_SSL.*CERTIFICATE_REQUIRED/.test(code))
    return `${where} refused the TLS connection (${code}): check svc.broker.tls.cert-file and key-file`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `the certificate of ${where} is for another name (${code}): check svc.broker.tls.server-name`;
  if (/EXPIRED|NOT_YET_VALID/.test(code))
    return `the certificate of ${where} is not valid at this time (${code})`;
  if (/^ERR_OSSL|^ERR_TLS/.test(code)) return `the files in svc.broker.tls cannot be used (${code})`;
  return `the certificate of ${where} is not trusted (${code}): add its authority to svc.broker.tls.ca-file`;
}

/** By the name of an error of Kafka's protocol, such as `UNKNOWN_TOPIC_OR_PARTITION`. */
function protocolReason(type: string, scene: FailureScene): Reason {
  const topic = topicName(scene);
  const fatal = (message: string): Reason => ({ kind: 'fatal', message });
  const retriable = (message: string): Reason => ({ kind: 'retriable', message });
  switch (type) {
    case 'INVALID_TOPIC_EXCEPTION':
      return invalidTopic(scene);
    case 'UNKNOWN_TOPIC_OR_PARTITION':
      return retriable(`${topic} does not exist: create it, or set auto.create.topics.enable on the brokers`);
    case 'THROTTLING_QUOTA_EXCEEDED':
      return retriable(
        `Kafka does not make ${topic} for now, by the quota controller_mutation_rate of ${who(scene.options)}: create it, or raise the quota`,
      );
    case 'TOPIC_AUTHORIZATION_FAILED':
      return fatal(`${who(scene.options)} may not write to ${topic}: grant it Write and Describe`);
    case 'CLUSTER_AUTHORIZATION_FAILED':
      return fatal(`${who(scene.options)} may not do this on the cluster: check its permissions`);
    case 'ILLEGAL_SASL_STATE':
      return fatal(
        `${all(scene)} does not accept username and password on this port: check the port and svc.broker.sasl`,
      );
    case 'UNSUPPORTED_SASL_MECHANISM':
      return mechanismNotOffered(scene);
    case 'SASL_AUTHENTICATION_FAILED':
      return refusedUser(scene);
    case 'MESSAGE_TOO_LARGE':
    case 'RECORD_LIST_TOO_LARGE':
      return {
        kind: 'too_large',
        message: `the record is larger than ${topic} allows: raise max.message.bytes of the topic, or send smaller events`,
      };
    case 'LEADER_NOT_AVAILABLE':
      return retriable(
        `a partition of ${topic} currently has no leader; Kafka elects one when a broker is available`,
      );
    case 'NOT_LEADER_FOR_PARTITION':
    case 'NOT_LEADER_OR_FOLLOWER':
    case 'FENCED_LEADER_EPOCH':
    case 'UNKNOWN_LEADER_EPOCH':
      return retriable(`${topic} has just moved to another broker (${type})`);
    case 'NOT_ENOUGH_REPLICAS':
      return retriable(
        `${topic} has fewer replicas in sync than min.insync.replicas: brokers are down or behind`,
      );
    case 'NOT_ENOUGH_REPLICAS_AFTER_APPEND':
      return {
        kind: 'unknown_outcome',
        message: `${topic} was written, but fewer replicas than min.insync.replicas have confirmed`,
      };
    case 'INVALID_TIMESTAMP':
      return fatal(
        `${topic} rejects the record time, from this machine's clock (INVALID_TIMESTAMP, by message.timestamp.after.max.ms or before.max.ms): set the clock`,
      );
    case 'REQUEST_TIMED_OUT':
      return requestTimedOut(scene);
    default:
      return { kind: otherKind(type, scene), message: `Kafka refused the record for ${topic} (${type})` };
  }
}

const refusedForGood = new Set([
  'INVALID_RECORD',
  'INVALID_REQUIRED_ACKS',
  'POLICY_VIOLATION',
  'UNSUPPORTED_VERSION',
]);

function otherKind(type: string, scene: FailureScene): SendFailureKind {
  return refusedForGood.has(type) || type.startsWith('UNSUPPORTED_') ? 'fatal' : kindOf(scene);
}

/** The identity of this process on the brokers. */
export function who(options: KafkaClientOptions): string {
  const { sasl } = options;
  if (sasl === undefined) return `the client "${options.clientId}"`;
  if (sasl.mechanism !== 'oauthbearer') return `the user "${sasl.username}"`;
  return sasl.clientId === undefined ? 'the owner of the token' : `the OAuth client "${sasl.clientId}"`;
}

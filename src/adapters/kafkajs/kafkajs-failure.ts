import { SvcError } from '../../errors.ts';
import type { SendFailure, SendFailureKind } from '../../publish/broker.ts';
import { topicNameRule } from '../../topic-name.ts';
import type { KafkajsClientOptions } from './kafkajs-client.ts';

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

export interface FailureScene {
  readonly options: KafkajsClientOptions;
  readonly topic?: string;
  /** Whether a produce request may have left for the broker. */
  readonly written: boolean;
}

interface Reason {
  readonly kind: SendFailureKind;
  readonly message: string;
  readonly cause?: string;
}

const wrappers = new Set(['KafkaJSNumberOfRetriesExceeded', 'KafkaJSNonRetriableError']);

/** The error inside the wrappers of kafkajs, whose own `retriable` flag is wrong as often as not. */
export function rootCause(error: unknown): Cause {
  let cause = (error ?? {}) as Cause;
  while (wrappers.has(cause.name ?? '') && typeof cause.cause === 'object' && cause.cause !== null)
    cause = cause.cause;
  return cause;
}

export function toSendFailure(error: unknown, scene: FailureScene): SendFailure {
  if (error instanceof SvcError) return { kind: 'fatal', cause: error.code, message: error.message };
  const cause = rootCause(error);
  const { kind, message, cause: name } = reasonOf(cause, scene);
  return { kind, message, cause: name ?? cause.type ?? codeOf(cause) ?? cause.name ?? 'Error' };
}

function reasonOf(cause: Cause, scene: FailureScene): Reason {
  if (cause.name === 'KafkaJSRequestTimeoutError' || cause.name === 'KafkaJSLockTimeout')
    return timedOut(scene, cause);
  if (cause.name === 'KafkaJSSASLAuthenticationError')
    return { kind: 'fatal', message: refusedUser(scene, cause) };
  if (cause.type !== undefined) return protocolReason(cause.type, scene);
  const code = codeOf(cause);
  if (code !== undefined && isCertificateProblem(code))
    return { kind: 'fatal', message: untrusted(scene, cause, code) };
  // Until a produce request was written, nothing can have been stored.
  const kind = scene.written ? 'unknown_outcome' : 'retriable';
  if (
    cause.name === 'KafkaJSConnectionError' &&
    code === undefined &&
    cause.message === 'Connection timeout'
  ) {
    const message = `${address(scene, cause)} did not accept a connection within ${scene.options.connectionTimeoutMs} ms: ${checkNetwork}`;
    return { kind, message, cause: 'TimeoutException' };
  }
  if (cause.name === 'KafkaJSConnectionClosedError' || (code === 'ECONNRESET' && !scene.written)) {
    return {
      kind,
      message: scene.written ? `${address(scene, cause)} closed the connection` : closedAtOnce(scene, cause),
    };
  }
  if (code !== undefined && unreachable.has(code)) return { kind, message: cannotReach(scene, cause, code) };
  if (cause.message === 'Invalid topic')
    return { kind: 'fatal', message: invalidTopic(scene), cause: 'INVALID_TOPIC_EXCEPTION' };
  const detail = code ?? cause.message?.split('\n')[0] ?? 'no reason given';
  return { kind, message: `Kafka could not be used at ${all(scene)} (${detail})` };
}

const unreachable = new Set([
  ...[
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'EHOSTDOWN',
    'ETIMEDOUT',
    'EADDRNOTAVAIL',
  ],
]);
const checkNetwork = 'check that Kafka runs there, svc.broker.bootstrap-servers, and the network';

const codeOf = (cause: Cause): string | undefined =>
  typeof cause.code === 'string' ? cause.code : undefined;
const all = ({ options }: FailureScene): string => options.brokers.join(', ');
const topicName = ({ topic }: FailureScene): string =>
  topic === undefined ? 'the topic' : `topic ${JSON.stringify(topic)}`;
const address = (scene: FailureScene, { broker }: Cause): string => broker ?? all(scene);
const invalidTopic = (scene: FailureScene): string =>
  `Kafka refuses the name of ${topicName(scene)}: ${topicNameRule}`;

function timedOut(scene: FailureScene, cause: Cause): Reason {
  const message = `no answer from Kafka (${address(scene, cause)}) within ${scene.options.requestTimeoutMs} ms: check the broker and the network, or raise svc.broker.request-timeout-ms`;
  return { kind: scene.written ? 'unknown_outcome' : 'retriable', message, cause: 'TimeoutException' };
}

function cannotReach(scene: FailureScene, cause: Cause, code: string): string {
  const { broker } = cause;
  if (broker === undefined || scene.options.brokers.includes(broker)) {
    return `cannot reach Kafka at ${all(scene)} (${code}): ${checkNetwork}`;
  }
  return `cannot reach ${broker} (${code}), the address that Kafka itself names: check that broker and its advertised.listeners`;
}

function closedAtOnce(scene: FailureScene, cause: Cause): string {
  const { tls, sasl } = scene.options;
  const where = `${address(scene, cause)} closed the connection before it was usable`;
  if (tls !== undefined)
    return `${where}: the port may not speak TLS (svc.broker.tls), or wants another client certificate`;
  if (sasl !== undefined)
    return `${where}: the port may expect TLS (svc.broker.tls), or another protocol than Kafka's`;
  return `${where}: the port may expect TLS (svc.broker.tls) or a user (svc.broker.sasl), or another protocol than Kafka's`;
}

const mechanismOf = ({ options }: FailureScene): string => (options.sasl?.mechanism ?? 'sasl').toUpperCase();
const notOffered = (scene: FailureScene): string =>
  `Kafka does not offer ${mechanismOf(scene)} on this port: check svc.broker.sasl.mechanism`;

function refusedUser(scene: FailureScene, cause: Cause): string {
  if (cause.message?.includes('not supported by the server')) return notOffered(scene);
  const user = scene.options.sasl?.username ?? '';
  return `Kafka refused the user "${user}" (${mechanismOf(scene)}): check svc.broker.sasl.username and svc.broker.sasl.password`;
}

function isCertificateProblem(code: string): boolean {
  return /CERT|SELF_SIGNED|^UNABLE_TO_|^ERR_TLS|^ERR_SSL|^ERR_OSSL|^EPROTO$|^CRL_|^HOSTNAME_MISMATCH$|^INVALID_CA$/.test(
    code,
  );
}

function untrusted(scene: FailureScene, cause: Cause, code: string): string {
  const where = address(scene, cause);
  if (/^EPROTO$|^ERR_SSL_WRONG_VERSION|PACKET_LENGTH/.test(code)) {
    return `${where} does not speak TLS (${code}): check the port and svc.broker.tls`;
  }
  if (/^ERR_SSL.*ALERT|^ERR_SSL.*CERTIFICATE_REQUIRED/.test(code)) {
    return `${where} refused the TLS connection (${code}): check svc.broker.tls.cert-file and key-file`;
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `the certificate of ${where} is for another name (${code}): check svc.broker.tls.server-name`;
  }
  if (/EXPIRED|NOT_YET_VALID/.test(code))
    return `the certificate of ${where} is not valid at this time (${code})`;
  if (/^ERR_OSSL|^ERR_TLS/.test(code)) return `the files in svc.broker.tls cannot be used (${code})`;
  return `the certificate of ${where} is not trusted (${code}): name its authority in svc.broker.tls.ca-file`;
}

function protocolReason(type: string, scene: FailureScene): Reason {
  const topic = topicName(scene);
  switch (type) {
    case 'INVALID_TOPIC_EXCEPTION':
      return { kind: 'fatal', message: invalidTopic(scene) };
    case 'UNKNOWN_TOPIC_OR_PARTITION':
      return {
        kind: 'retriable',
        message: `${topic} does not exist: create it, or set auto.create.topics.enable on the brokers`,
      };
    case 'TOPIC_AUTHORIZATION_FAILED':
      return {
        kind: 'fatal',
        message: `${who(scene)} may not write to ${topic}: give it the Write and Describe permissions`,
      };
    case 'CLUSTER_AUTHORIZATION_FAILED':
      return {
        kind: 'fatal',
        message: `${who(scene)} may not do this on the cluster: check its permissions`,
      };
    case 'ILLEGAL_SASL_STATE':
      return {
        kind: 'fatal',
        message: `${all(scene)} does not accept a user and password on this port: check the port and svc.broker.sasl`,
      };
    case 'UNSUPPORTED_SASL_MECHANISM':
      return { kind: 'fatal', message: notOffered(scene) };
    case 'SASL_AUTHENTICATION_FAILED':
      return { kind: 'fatal', message: refusedUser(scene, {}) };
    case 'MESSAGE_TOO_LARGE':
    case 'RECORD_LIST_TOO_LARGE':
      return {
        kind: 'too_large',
        message: `the record is larger than ${topic} takes: raise max.message.bytes there, or send less`,
      };
    case 'LEADER_NOT_AVAILABLE':
      return {
        kind: 'retriable',
        message: `a partition of ${topic} has no leader now: it comes back when a broker takes over`,
      };
    case 'NOT_LEADER_FOR_PARTITION':
    case 'FENCED_LEADER_EPOCH':
    case 'UNKNOWN_LEADER_EPOCH':
      return { kind: 'retriable', message: `${topic} has just moved to another broker (${type})` };
    case 'NOT_ENOUGH_REPLICAS':
      return {
        kind: 'retriable',
        message: `${topic} has fewer replicas in sync than min.insync.replicas: brokers are down or behind`,
      };
    case 'NOT_ENOUGH_REPLICAS_AFTER_APPEND':
      return {
        kind: 'unknown_outcome',
        message: `${topic} was written, but fewer replicas than min.insync.replicas have confirmed`,
      };
    case 'REQUEST_TIMED_OUT':
      return timedOut(scene, {});
    default:
      return { kind: otherKind(type, scene), message: `Kafka refused the record for ${topic} (${type})` };
  }
}

const refusedForGood = new Set([
  'INVALID_RECORD',
  'INVALID_TIMESTAMP',
  'INVALID_REQUIRED_ACKS',
  'POLICY_VIOLATION',
  'UNSUPPORTED_VERSION',
]);

function otherKind(type: string, { written }: FailureScene): SendFailureKind {
  if (refusedForGood.has(type) || type.startsWith('UNSUPPORTED_')) return 'fatal';
  return written ? 'unknown_outcome' : 'retriable';
}

function who({ options }: FailureScene): string {
  return options.sasl === undefined
    ? `the client "${options.clientId}"`
    : `the user "${options.sasl.username}"`;
}

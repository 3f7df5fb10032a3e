import { SvcError } from '../../ground/errors.ts';
import type { SendFailure } from '../../publish/broker.ts';
import {
  connectionClosed,
  connectionTimedOut,
  type FailureScene,
  otherReason,
  protocolReason,
  type Reason,
  refusedUser,
  requestTimedOut,
  socketReason,
  withoutToken,
} from '../kafka/failure-lines.ts';
import { TokenError } from '../kafka/token/request-token.ts';
import { BrokerError } from './platformatic-connection.ts';

/** An error of the package, of Node's sockets, or whatever else was thrown. */
interface Cause {
  readonly message?: string;
  /** Of Node, such as `ECONNREFUSED`, or of the package, such as `PLT_KFK_NETWORK`. */
  readonly code?: string | number;
  /** Of the Kafka protocol, such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly apiId?: string;
  readonly cause?: unknown;
  readonly errors?: readonly unknown[];
}

const ownCodes = 'PLT_KFK_';
const unnamed = 'UNKNOWN_SERVER_ERROR';

export function toSendFailure(error: unknown, scene: FailureScene): SendFailure {
  const causes = allOf(error);
  const token = causes.find((cause) => cause instanceof TokenError);
  if (token instanceof TokenError) return withoutToken(token);
  const own = causes.find((cause) => cause instanceof SvcError);
  if (own instanceof SvcError) return { kind: 'fatal', cause: own.code, message: own.message };
  const broker = error instanceof BrokerError ? error.broker : undefined;
  const { kind, message, cause } = reasonOf(causes, scene, broker);
  return { kind, message, cause: cause ?? protocolError(causes) ?? socketCode(causes) ?? 'ConnectionError' };
}

/** The name of the first error of Kafka's protocol that stands anywhere inside, the unknown one only where there is no other. */
export const protocolErrorIn = (error: unknown): string | undefined => protocolError(allOf(error));

/** Whether a broker has said it, rather than nobody anything. */
export const isAnswer = (error: unknown): boolean => protocolErrorIn(error) !== undefined;

function protocolError(causes: readonly Cause[]): string | undefined {
  const types = causes.flatMap(({ apiId }) => apiId ?? []);
  // What Kafka says of single records has no name, and the package puts it before the error of their batch, which has one.
  return types.find((type) => type !== unnamed) ?? types[0];
}

/** What Node says of the connection. */
export const socketCodeIn = (error: unknown): string | undefined => socketCode(allOf(error));

const socketCode = (causes: readonly Cause[]): string | undefined =>
  causes.find(({ code }) => typeof code === 'string' && !code.startsWith(ownCodes))?.code as
    | string
    | undefined;

/** The package wraps errors in errors, and the outermost says the least. */
function allOf(error: unknown): Cause[] {
  if (typeof error !== 'object' || error === null) return [];
  const { cause, errors } = error as Cause;
  return [error as Cause, ...allOf(cause), ...(errors ?? []).flatMap(allOf)];
}

function reasonOf(causes: readonly Cause[], scene: FailureScene, broker: string | undefined): Reason {
  const says = (text: string): boolean => causes.some(({ message }) => message?.includes(text));
  const type = protocolError(causes);
  if (type !== undefined) return protocolReason(type, scene);
  if (says('Request timed out')) return requestTimedOut(scene, broker);
  if (says(' timed out')) return connectionTimedOut(scene, broker);
  const code = socketCode(causes);
  const known = code === undefined ? undefined : socketReason(code, scene, broker);
  if (known !== undefined) return known;
  if (says('Broker requires TLS') || says('onnection closed') || says('closed by svc'))
    return connectionClosed(scene, broker);
  if (causes.some((cause) => cause.code === 'PLT_KFK_AUTHENTICATION')) return refusedUser(scene);
  return otherReason(code ?? causes.at(-1)?.message?.split('\n')[0] ?? 'no reason given', scene);
}

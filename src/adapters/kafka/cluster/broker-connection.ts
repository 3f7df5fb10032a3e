import { inTime, systemClock } from '../../../ground/clock.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { type KafkaRequest, type Versions, versionsRequest } from '../protocol/kafka-request.ts';
import { type Address, keyOf, type Transport } from '../transport.ts';
import { BrokerError, NoAnswer } from './broker-error.ts';
import { createSocketRequests } from './socket-requests.ts';

/** A connection to one broker, signed in, which has told what requests it understands. */
export interface BrokerConnection {
  /** On the monotonic clock. */
  readonly openedAtMs: number;
  /** Whether it is there, and the broker lets it live for a while. */
  isUsable(): boolean;
  /**
   * In the newest version that both sides know. Rejects with a {@link BrokerError}, also where there is no answer within
   * `requestTimeoutMs`: then the connection is used for nothing else, and closes with what is under way on it.
   */
  ask<T>(request: KafkaRequest<T>): Promise<T>;
  /** At once: requests under way fail. */
  destroy(): void;
  /** When no request is under way any more. */
  retire(): void;
}

/** Of a session the broker limits: then the next request opens another connection. */
const partOfLife = 0.8;

/** Rejects with a {@link BrokerError}. `signal` ends the attempt, at once. */
export async function openConnection(
  transport: Transport,
  { clientId, requestTimeoutMs }: KafkaClientOptions,
  address: Address,
  signal: AbortSignal,
): Promise<BrokerConnection> {
  const broker = keyOf(address);
  const asBrokerError = (error: unknown): never => {
    throw new BrokerError(broker, error);
  };
  const { socket, sessionMs } = await transport(address, signal).catch(asBrokerError);
  const requests = createSocketRequests(socket, clientId);
  const lifeMs = sessionMs > 0 ? sessionMs * partOfLife : Number.POSITIVE_INFINITY;
  const openedAtMs = systemClock.monotonic();
  const { destroy } = requests;
  let underWay = 0;
  let isRetired = false;

  function retire(): void {
    isRetired = true;
    if (underWay === 0) destroy();
  }

  async function ask<T>(request: KafkaRequest<T>, versions?: Versions): Promise<T> {
    underWay++;
    try {
      const version = versionOf(request, versions);
      const answer = requests.send(request.key, version, request.write(version), request.read !== undefined);
      const late = (): never => {
        retire();
        throw new NoAnswer(requestTimeoutMs);
      };
      // Who waits for it keeps the process alive, or nobody.
      const bytes = await inTime(answer, { limitMs: requestTimeoutMs, keepsAlive: false, late });
      return request.read?.(bytes, version) as T;
    } catch (error) {
      return asBrokerError(error);
    } finally {
      underWay--;
      if (isRetired && underWay === 0) destroy();
    }
  }

  signal.addEventListener('abort', destroy);
  let versions: Versions;
  try {
    if (signal.aborted) destroy();
    versions = await ask(versionsRequest);
  } catch (error) {
    destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', destroy);
  }
  return {
    openedAtMs,
    isUsable: () => !isRetired && requests.isOpen() && systemClock.monotonic() - openedAtMs < lifeMs,
    ask: (request) => ask(request, versions),
    ...{ destroy, retire },
  };
}

function versionOf({ key, name, oldest, newest }: KafkaRequest<unknown>, versions?: Versions): number {
  if (versions === undefined) return newest;
  const [least, most] = versions.get(key) ?? [0, -1];
  const version = Math.min(most, newest);
  if (version < Math.max(least, oldest))
    throw new Error(`svc and this Kafka have no version of ${name} in common`);
  return version;
}

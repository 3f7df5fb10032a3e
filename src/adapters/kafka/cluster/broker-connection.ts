import { systemClock } from '../../../ground/clock.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { type KafkaRequest, throttleIn, type Versions, versionsRequest } from '../protocol/kafka-request.ts';
import { type Address, keyOf, type Transport } from '../transport.ts';
import { BrokerError, NoAnswer, NoCommonVersion } from './broker-error.ts';
import { createSocketRequests } from './socket-requests.ts';
import { createThrottle, type Throttle } from './throttle.ts';

/** A connection to one broker, signed in, which has told what requests it understands. */
export interface BrokerConnection {
  /** On the monotonic clock. */
  readonly openedAtMs: number;
  /** Whether it is there, and the broker lets it live for a while. */
  isUsable(): boolean;
  /**
   * In the newest version that both sides know. Rejects with a {@link BrokerError}, also where there is no answer within
   * `requestTimeoutMs`: then the connection is used for nothing else, and closes with what is under way on it. While the broker holds
   * this process back by a quota, nothing is written, and that time does not run.
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
  options: KafkaClientOptions,
  address: Address,
  signal: AbortSignal,
  throttle: Throttle = createThrottle(options),
): Promise<BrokerConnection> {
  const { clientId, requestTimeoutMs } = options;
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
      await throttle.over(broker);
      const answer = requests.send(request.key, version, request.write(version), request.read !== undefined);
      const bytes = await answered(answer);
      throttle.heard(broker, throttleIn(request, bytes, version), request.name);
      return request.read?.(bytes, version) as T;
    } catch (error) {
      return asBrokerError(error);
    } finally {
      underWay--;
      if (isRetired && underWay === 0) destroy();
    }
  }

  /** Within the time limit. Who waits for it keeps the process alive, or nobody. */
  function answered(answer: Promise<Buffer>): Promise<Buffer> {
    const sentAtMs = systemClock.monotonic();
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout;
      const look = (): void => {
        // A broker that holds this process back does not read what was written before.
        const sinceMs = Math.max(sentAtMs, throttle.untilMs(broker));
        const leftMs = sinceMs + requestTimeoutMs - systemClock.monotonic();
        if (leftMs > 0) lookAfter(leftMs);
        else {
          retire();
          reject(new NoAnswer(requestTimeoutMs));
        }
      };
      const lookAfter = (ms: number): void => {
        timer = setTimeout(look, Math.ceil(ms)).unref();
      };
      lookAfter(requestTimeoutMs);
      answer.then(resolve, reject).finally(() => clearTimeout(timer));
    });
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
  if (version < Math.max(least, oldest)) throw new NoCommonVersion(name);
  return version;
}

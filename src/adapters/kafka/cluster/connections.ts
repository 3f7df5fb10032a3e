import { systemClock } from '../../../ground/clock.ts';
import { createDialPace, type DialPace } from '../dial-pace.ts';
import { firstAnswer } from '../first-answer.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { isAnswer, socketCodeIn } from '../send-failure.ts';
import { type Address, keyOf, type Transport } from '../transport.ts';
import { type BrokerConnection, openConnection } from './broker-connection.ts';
import { createThrottle, type Throttle } from './throttle.ts';

/** One connection for each broker, opened when it is asked for. */
export interface Connections {
  /** Rejects with a `BrokerError`. */
  get(address: Address): BrokerConnection | Promise<BrokerConnection>;
  /** One beside `old`, which may be dead without a word. Once it is open it takes its place, and `old` gets no further request. */
  replace(address: Address, old: BrokerConnection): Promise<BrokerConnection>;
  has(address: Address): boolean;
  /** Its requests under way fail, those that wait for it to open too, and the next one opens another. */
  drop(address: Address): void;
  /** None that was opened before this time (on the monotonic clock) is used for another request; what is under way goes on. */
  renew(beforeMs?: number): void;
  /** Those that are open and usable. */
  count(): number;
  /** For good. */
  close(): void;
}

interface Opening {
  readonly connection: Promise<BrokerConnection>;
  readonly ending: AbortController;
}

/** @param pace and `throttle`: shared with others who connect to the same brokers */
export function createConnections(
  transport: Transport,
  options: KafkaClientOptions,
  pace: DialPace<unknown> = createDialPace(systemClock),
  throttle: Throttle = createThrottle(options),
): Connections {
  const open = new Map<string, BrokerConnection>();
  const opening = new Map<string, Opening>();
  let closed = false;

  const usable = (key: string): BrokerConnection | undefined => {
    const known = open.get(key);
    if (known === undefined || known.isUsable()) return known;
    open.delete(key);
    known.retire();
    return undefined;
  };

  function begin(key: string, address: Address): Promise<BrokerConnection> {
    const ending = new AbortController();
    const open = (signal: AbortSignal) => openNew(key, address, AbortSignal.any([ending.signal, signal]));
    const started = {
      ending,
      connection: firstAnswer(open, isAnswer).then((connection) => opened(key, connection)),
    };
    opening.set(key, started);
    const end = (): void => {
      if (opening.get(key) === started) opening.delete(key);
    };
    started.connection.then(end, end);
    return started.connection;
  }

  async function openNew(key: string, address: Address, signal: AbortSignal): Promise<BrokerConnection> {
    const opening = openConnection(transport, options, address, signal, throttle);
    const connection = await opening.catch((error: unknown) => {
      pace.failed(key, socketCodeIn(error), error);
      throw error;
    });
    // It may be one too many, or too late.
    if (signal.aborted) connection.destroy();
    signal.throwIfAborted();
    return connection;
  }

  function opened(key: string, connection: BrokerConnection): BrokerConnection {
    pace.connected();
    open.set(key, connection);
    return connection;
  }

  return {
    get(address) {
      const key = keyOf(address);
      const known = usable(key);
      if (known !== undefined) return known;
      const started = opening.get(key);
      if (started !== undefined) return started.connection;
      if (closed) return Promise.reject(new Error('closed by svc'));
      const refusal = pace.refusal(key);
      return refusal === undefined ? begin(key, address) : Promise.reject(refusal);
    },
    async replace(address, old) {
      const key = keyOf(address);
      const known = open.get(key);
      if (known !== undefined && known !== old && known.isUsable()) return known;
      if (closed) throw new Error('closed by svc');
      const fresh = await (opening.get(key)?.connection ?? begin(key, address));
      old.retire();
      return fresh;
    },
    has: (address) => usable(keyOf(address)) !== undefined,
    drop(address) {
      const key = keyOf(address);
      opening.get(key)?.ending.abort(new Error('closed by svc'));
      opening.delete(key);
      open.get(key)?.destroy();
      open.delete(key);
    },
    renew(beforeMs = Number.POSITIVE_INFINITY) {
      for (const [key, connection] of open)
        if (connection.openedAtMs < beforeMs && open.delete(key)) connection.retire();
    },
    count: () => [...open.values()].filter((connection) => connection.isUsable()).length,
    close() {
      closed = true;
      for (const { ending } of opening.values()) ending.abort(new Error('closed by svc'));
      for (const connection of open.values()) connection.destroy();
      open.clear();
    },
  };
}

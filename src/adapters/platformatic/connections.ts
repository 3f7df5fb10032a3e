import { systemClock } from '../../ground/clock.ts';
import { createDialPace, type DialPace } from '../kafka/dial-pace.ts';
import {
  type Address,
  type BrokerConnection,
  type ConnectionSettings,
  openConnection,
} from './platformatic-connection.ts';
import { socketCodeIn } from './platformatic-failure.ts';

/** One connection for each broker, opened when it is asked for. */
export interface Connections {
  /** Rejects with a `BrokerError`. */
  get(address: Address): BrokerConnection | Promise<BrokerConnection>;
  has(address: Address): boolean;
  /** Its requests under way fail, and the next one opens another. */
  drop(address: Address): void;
  /** Those that are open and usable. */
  count(): number;
  /** For good. */
  close(): void;
}

/** @param pace shared with others who connect to the same brokers */
export function createConnections(
  settings: ConnectionSettings,
  pace: DialPace<unknown> = createDialPace(systemClock),
): Connections {
  const open = new Map<string, BrokerConnection>();
  const opening = new Map<string, Promise<BrokerConnection>>();
  const ending = new AbortController();
  let closed = false;

  const usable = (key: string): BrokerConnection | undefined => {
    const known = open.get(key);
    if (known === undefined || known.isUsable()) return known;
    open.delete(key);
    known.retire();
    return undefined;
  };

  async function openNew(key: string, address: Address): Promise<BrokerConnection> {
    try {
      const connection = await openConnection(settings, address, ending.signal).catch((error: unknown) => {
        pace.failed(key, socketCodeIn(error), error);
        throw error;
      });
      pace.connected();
      if (closed) connection.destroy();
      else open.set(key, connection);
      return connection;
    } finally {
      opening.delete(key);
    }
  }

  return {
    get(address) {
      const key = keyOf(address);
      const known = usable(key);
      if (known !== undefined) return known;
      let started = opening.get(key);
      if (started === undefined) {
        const refusal = pace.refusal(key);
        if (refusal !== undefined && !closed) return Promise.reject(refusal);
        started = closed ? Promise.reject(new Error('closed by svc')) : openNew(key, address);
        if (!closed) opening.set(key, started);
      }
      return started;
    },
    has: (address) => usable(keyOf(address)) !== undefined,
    drop(address) {
      const key = keyOf(address);
      open.get(key)?.destroy();
      open.delete(key);
    },
    count: () => [...open.values()].filter((connection) => connection.isUsable()).length,
    close() {
      closed = true;
      ending.abort(new Error('closed by svc'));
      for (const connection of open.values()) connection.destroy();
      open.clear();
    },
  };
}

export const keyOf = ({ host, port }: Address): string => `${host}:${port}`;

// kafkajs/: the connections of kafkajs, signed in, and its consumers: reading dead letters and topics.

import type { Socket } from 'node:net';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import type { Address, Transport } from '../kafka/transport.ts';
import { clusterOf, loadKafkajs } from './kafkajs-client.ts';

interface Connection {
  readonly socket: Socket;
  /** Milliseconds; a big number of a class of its own. */
  readonly sessionLifetime: { toString(): string };
  readonly requestQueue: { destroy(): void };
}

interface ConnectionPool {
  getConnection(): Promise<Connection>;
}

/** What is below the producers and consumers of kafkajs: connections on which any request may be sent. */
interface BrokerPool {
  readonly connectionPoolBuilder: { build(address: Address): Promise<ConnectionPool> };
  readonly rootLogger: unknown;
  createBroker(parts: { connectionPool: ConnectionPool; logger: unknown }): { connect(): Promise<void> };
}

/**
 * Its producer is not used: it makes a buffer of half a kilobyte for every header and record, and resolves although records of
 * a partition that it does not know were left out.
 */
export async function loadKafkajsTransport(options: KafkaClientOptions): Promise<Transport> {
  const open = await loadKafkajs(options);

  return async (address, signal) => {
    const client = open();
    signal.addEventListener('abort', client.destroySockets);
    try {
      signal.throwIfAborted();
      const { brokerPool } = clusterOf<{ readonly brokerPool: BrokerPool }>(client.kafka, {});
      const connectionPool = await brokerPool.connectionPoolBuilder.build(address);
      await brokerPool.createBroker({ connectionPool, logger: brokerPool.rootLogger }).connect();
      const { socket, sessionLifetime, requestQueue } = await connectionPool.getConnection();
      requestQueue.destroy();
      return { socket, sessionMs: Number(String(sessionLifetime)) };
    } catch (error) {
      client.destroySockets();
      throw error;
    } finally {
      signal.removeEventListener('abort', client.destroySockets);
    }
  };
}

// kafkajs/: connections of kafkajs, signed in, and its consumers for dead letters and topics.

import type { Socket } from 'node:net';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import type { Address, Transport } from '../kafka/transport.ts';
import { clusterOf, loadKafkajs } from './kafkajs-client.ts';

interface Connection {
  readonly socket: Socket;
  /** Milliseconds, as a Long of kafkajs. */
  readonly sessionLifetime: { toString(): string };
  readonly requestQueue: { destroy(): void };
}

interface ConnectionPool {
  getConnection(): Promise<Connection>;
}

/** The layer below producers and consumers of kafkajs: connections for any request. */
interface BrokerPool {
  readonly connectionPoolBuilder: { build(address: Address): Promise<ConnectionPool> };
  readonly rootLogger: unknown;
  createBroker(parts: { connectionPool: ConnectionPool; logger: unknown }): { connect(): Promise<void> };
}

/**
 * svc does not use its producer. That makes a buffer of half a kilobyte for every header and record. It also resolves if it
 * left out records of a partition that it does not know.
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

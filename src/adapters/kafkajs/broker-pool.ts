import type { KafkajsClient } from './kafkajs-client.ts';

/** What is below the producers and consumers of kafkajs: connections on which any request may be sent. */
export interface BrokerPool<Broker> {
  readonly seedBroker: Broker;
  connect(): Promise<void>;
  disconnect(): Promise<void>;
}

export function brokerPoolOf<Broker>({ kafka }: KafkajsClient): BrokerPool<Broker> {
  const inner = kafka as unknown as Record<
    symbol,
    ((options: object) => { brokerPool?: BrokerPool<Broker> } | undefined) | undefined
  >;
  const key = Object.getOwnPropertySymbols(kafka).find(({ description }) =>
    description?.endsWith('createCluster'),
  );
  const pool = key && inner[key]?.({})?.brokerPool;
  if (typeof pool?.connect !== 'function' || typeof pool.disconnect !== 'function')
    throw new Error('this version of kafkajs has no way to its brokers that svc knows');
  return pool;
}

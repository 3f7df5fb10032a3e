import type { Kafka } from 'kafkajs';
import { SvcError } from '../../ground/errors.ts';

/** What kafkajs itself connects, reads and writes with: its connections, and reading without a group. */
export function clusterOf<Cluster>(kafka: Kafka, options: object): Cluster {
  const symbol = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  const make = symbol && (kafka as unknown as Record<symbol, unknown>)[symbol];
  if (typeof make !== 'function')
    throw new SvcError(
      'SVC_ADAPTERS_NOT_REACHABLE',
      'this version of kafkajs has no way to its brokers that svc knows',
    );
  return make.call(kafka, options) as Cluster;
}

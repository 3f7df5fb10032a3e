import type { AskAccess } from '../../publish/broker-access.ts';
import { type ClusterMetadata, createKafkaAccess } from '../kafka/access/kafka-access.ts';
import { brokerPoolOf } from './broker-pool.ts';
import { type KafkajsClientOptions, loadKafkajs } from './kafkajs-client.ts';
import { protocolErrorIn, toSendFailure } from './kafkajs-failure.ts';
import {
  metadataBody,
  metadataKey,
  newestMetadata,
  oldestMetadata,
  readMetadata,
} from './wire/metadata-request.ts';

/** One request of Kafka's protocol, as the connections of kafkajs take it. */
interface Connection {
  send<T>(exchange: { request: object; response: object }): Promise<T>;
}

interface AccessBroker {
  readonly versions: Readonly<Record<number, { readonly maxVersion: number }>>;
  readonly connectionPool: { getConnection(): Promise<Connection> };
  heartbeat(request: object): Promise<unknown>;
}

export function createKafkajsAccess(options: KafkajsClientOptions): AskAccess {
  return createKafkaAccess({
    ...{ options, toSendFailure, errorName: protocolErrorIn },
    async open(_address, asking, signal) {
      const client = (await loadKafkajs(asking))();
      signal.throwIfAborted();
      signal.addEventListener('abort', client.destroySockets);
      const pool = brokerPoolOf<AccessBroker>(client);
      await pool.connect();
      const broker = pool.seedBroker;
      return {
        metadata: (topics) => askMetadata(broker, topics),
        heartbeat: (groupId, memberId) => broker.heartbeat({ groupId, memberId, groupGenerationId: 0 }),
      };
    },
  });
}

async function askMetadata(broker: AccessBroker, topics: readonly string[]): Promise<ClusterMetadata> {
  const { maxVersion = 0 } = broker.versions[metadataKey] ?? {};
  const apiVersion = Math.min(maxVersion, newestMetadata);
  if (apiVersion < oldestMetadata) throw new Error('Kafka before 1.0 does not tell of its topics');
  const connection = await broker.connectionPool.getConnection();
  const buffer = metadataBody(apiVersion, topics);
  return connection.send<ClusterMetadata>({
    request: {
      ...{ apiKey: metadataKey, apiVersion, apiName: 'Metadata' },
      encode: async () => ({ buf: buffer, buffer }),
    },
    response: {
      decode: async (answer: Buffer) => readMetadata(apiVersion, answer),
      parse: async (metadata: ClusterMetadata) => metadata,
    },
  });
}

import type {
  KafkaClientOptions,
  KafkaCompression,
} from '../../../src/adapters/kafka/kafka-client-options.ts';
import { createKafkajsBroker } from '../../../src/adapters/kafkajs/kafkajs-broker.ts';
import { createPlatformaticBroker } from '../../../src/adapters/platformatic/platformatic-broker.ts';
import type { Broker } from '../../../src/publish/broker.ts';

export interface KafkaClient {
  readonly name: 'kafkajs' | 'platformatic';
  readonly create: (options: KafkaClientOptions) => Broker;
  /** What a wrong password is called. */
  readonly refusedUserCause: string;
  readonly compressions: readonly KafkaCompression[];
}

/** Whatever is true of one is true of the other. */
export const kafkaClients: readonly KafkaClient[] = [
  {
    name: 'kafkajs',
    create: createKafkajsBroker,
    refusedUserCause: 'KafkaJSSASLAuthenticationError',
    compressions: ['none', 'gzip', 'zstd'],
  },
  {
    name: 'platformatic',
    create: createPlatformaticBroker,
    refusedUserCause: 'SASL_AUTHENTICATION_FAILED',
    compressions: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  },
];

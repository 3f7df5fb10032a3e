import { createKafkaBroker } from '../../../src/adapters/kafka/kafka-broker.ts';
import type {
  KafkaClientOptions,
  KafkaCompression,
} from '../../../src/adapters/kafka/kafka-client-options.ts';
import type { LoadTransport } from '../../../src/adapters/kafka/transport.ts';
import { loadKafkajsTransport } from '../../../src/adapters/kafkajs/kafkajs-transport.ts';
import { loadPlatformaticTransport } from '../../../src/adapters/platformatic/platformatic-transport.ts';
import type { Broker } from '../../../src/publish/broker.ts';

export interface KafkaClient {
  readonly name: 'kafkajs' | 'platformatic';
  readonly load: LoadTransport;
  readonly create: (options: KafkaClientOptions) => Broker;
  /** What a wrong password is called. */
  readonly refusedUserCause: string;
  readonly compressions: readonly KafkaCompression[];
}

/** Whatever is true of one is true of the other. */
export const kafkaClients: readonly KafkaClient[] = [
  {
    name: 'kafkajs',
    load: loadKafkajsTransport,
    create: (options) => createKafkaBroker('kafkajs', options, loadKafkajsTransport),
    refusedUserCause: 'KafkaJSSASLAuthenticationError',
    compressions: ['none', 'gzip', 'zstd'],
  },
  {
    name: 'platformatic',
    load: loadPlatformaticTransport,
    create: (options) => createKafkaBroker('platformatic', options, loadPlatformaticTransport),
    refusedUserCause: 'SASL_AUTHENTICATION_FAILED',
    compressions: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  },
];

export const createKafkajsBroker = kafkaClients[0]?.create as KafkaClient['create'];

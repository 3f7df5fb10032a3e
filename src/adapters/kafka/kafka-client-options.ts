import type { KafkaCompression, passwordMechanisms } from '../../ground/management.ts';
import type { Logger } from '../../observe/logger.ts';

export interface KafkaTlsOptions {
  /** PEM files, read at the first connection. Without `caFile` the authorities that Node trusts are taken. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Name expected in the broker's certificate. Default: the host it is reached by. */
  readonly serverName?: string | undefined;
}

export type KafkaSaslOptions = KafkaPasswordOptions | KafkaTokenOptions;

export interface KafkaPasswordOptions {
  readonly mechanism: (typeof passwordMechanisms)[number];
  readonly username: string;
  readonly password: string;
}

/** A token, from an endpoint (OAuth client credentials), from a file, or as it is: the first of them that is given. */
export interface KafkaTokenOptions {
  readonly mechanism: 'oauthbearer';
  readonly tokenEndpointUrl?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scope?: string | undefined;
  /** Read again for each connection. */
  readonly tokenFile?: string | undefined;
  readonly token?: string | undefined;
  /** SASL extensions that go with the token. */
  readonly extensions?: Readonly<Record<string, string>> | undefined;
}

/** By whom a record must be confirmed: all replicas in sync, the leader, or nobody. */
export type KafkaAcks = 'all' | '1' | '0';

export type { KafkaCompression };

/** What every client of Kafka is made from. */
export interface KafkaClientOptions {
  /** `host:port` of the brokers to begin with. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** How long a broker may take to answer one request. */
  readonly requestTimeoutMs: number;
  readonly connectionTimeoutMs: number;
  readonly tls?: KafkaTlsOptions | undefined;
  readonly sasl?: KafkaSaslOptions | undefined;
  /** Default `all`. */
  readonly acks?: KafkaAcks | undefined;
  /** With `acks: all`, Kafka stores a batch once that is sent again. Default: true. */
  readonly idempotence?: boolean | undefined;
  /** Default `none`. `snappy` and `lz4` are for platformatic only. */
  readonly compression?: KafkaCompression | undefined;
  /** `false`: Kafka is never asked to make a topic that is not there. Default: where its brokers do so. */
  readonly makesTopics?: false | undefined;
  readonly logger: Logger;
}

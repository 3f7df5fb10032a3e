import type { Logger } from '../../observe/logger.ts';

export interface KafkaTlsOptions {
  /** PEM files, read at the first connection. Without `caFile` the authorities that Node trusts are taken. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Name expected in the broker's certificate. Default: the host it is reached by. */
  readonly serverName?: string | undefined;
}

export interface KafkaSaslOptions {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

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
  readonly logger: Logger;
}

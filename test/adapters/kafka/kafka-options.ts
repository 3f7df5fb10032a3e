import type { KafkaClientOptions } from '../../../src/adapters/kafka/kafka-client-options.ts';
import type { Config } from '../../../src/config/config.ts';
import type { BrokerRecord } from '../../../src/publish/broker.ts';

export function kafkaOptions(
  brokers: readonly string[],
  rest: Partial<KafkaClientOptions> = {},
): KafkaClientOptions {
  return {
    brokers,
    clientId: 'svc-tests',
    requestTimeoutMs: 2000,
    connectionTimeoutMs: 1000,
    ...rest,
  };
}

/** A configuration with these options. */
export function configOf(client: string, options: KafkaClientOptions, group = ''): Config {
  const { brokers: bootstrapServers, tls, sasl, ...rest } = options;
  const broker = { ...rest, client, bootstrapServers, tls: { enabled: tls !== undefined, ...tls } };
  return {
    broker: { ...broker, sasl: { ...sasl }, file: { path: '/nowhere' } },
    idGenerator: { group },
  } as unknown as Config;
}

export function textRecord(text: string): BrokerRecord {
  return { key: null, value: Buffer.from(JSON.stringify(text)), headers: {}, timestamp: Date.now() };
}

/** Of connections that stand in for real ones. */
export const neverThrottled = {
  untilMs: () => Number.NEGATIVE_INFINITY,
  over: () => undefined,
  of: () => undefined,
};

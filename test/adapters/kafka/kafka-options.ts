import type { KafkaClientOptions } from '../../../src/adapters/kafka/kafka-client-options.ts';
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

export function textRecord(text: string): BrokerRecord {
  return { key: null, value: Buffer.from(JSON.stringify(text)), headers: {}, timestamp: Date.now() };
}

/** Of connections that stand in for real ones. */
export const neverThrottled = {
  untilMs: () => Number.NEGATIVE_INFINITY,
  over: () => undefined,
  of: () => undefined,
};

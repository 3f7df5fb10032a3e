import type { Config } from '../config/config.ts';
import type { Logger } from '../observe/logger.ts';
import { createRetryPolicy } from '../publish/main/batches/retry.ts';
import { defaultBreaker } from '../publish/main/breaker.ts';
import type { QueueOptions } from '../publish/main/queue.ts';
import type { BrokerSettings, S3Settings } from './adapters.ts';

// What the configuration means for the parts that engine.ts builds.

/** The end of `svc.broker.delivery-timeout-ms`, which is for the tiers behind the topic: a quarter of it, two seconds at most. */
export function tiersTimeMs({ broker }: Config): number {
  return Math.min(Math.floor(broker.deliveryTimeoutMs / 4), 2_000);
}

export function queueSettingsOf(
  config: Config,
): Pick<
  QueueOptions,
  'topic' | 'batch' | 'buffer' | 'maxInFlight' | 'deliveryTimeoutMs' | 'retry' | 'breaker'
> {
  const { broker, retry } = config;
  const { topic, buffer, maxInFlight } = broker;
  const deliveryTimeoutMs = broker.deliveryTimeoutMs - tiersTimeMs(config);
  const batch = { ...broker.batch, isAwaited: !broker.asyncMode };
  const { initialInterval: initialIntervalMs, maxInterval: maxIntervalMs } = retry;
  return {
    ...{ topic, batch, buffer, maxInFlight, deliveryTimeoutMs },
    retry: createRetryPolicy({ ...retry, initialIntervalMs, maxIntervalMs }),
    breaker: { ...defaultBreaker, random: Math.random },
  };
}

/** Not to files, to memory, or to a broker of the application's own. */
export const goesToKafka = ({ broker: { client } }: Config): boolean =>
  client === 'kafkajs' || client === 'platformatic';

export function brokerSettingsOf({ broker }: Config, logger: Logger): BrokerSettings {
  return {
    brokers: broker.bootstrapServers,
    clientId: broker.clientId,
    requestTimeoutMs: broker.requestTimeoutMs,
    connectionTimeoutMs: broker.connectionTimeoutMs,
    tls: broker.tls.enabled ? broker.tls : undefined,
    sasl: saslOf(broker.sasl),
    acks: broker.acks,
    idempotence: broker.idempotence,
    compression: broker.compression,
    directory: broker.file.path,
    logger,
  };
}

/** `undefined` where no backup goes to a bucket. */
export function s3SettingsOf({ broker }: Config): S3Settings | undefined {
  const {
    s3Enabled,
    s3Bucket: bucket,
    s3Prefix: prefix,
    s3Region: region,
    s3Endpoint: endpoint,
  } = broker.backup;
  return s3Enabled && bucket !== undefined ? { bucket, prefix, region, endpoint } : undefined;
}

function saslOf({
  mechanism,
  username = '',
  password = '',
  oauthbearer,
}: Config['broker']['sasl']): BrokerSettings['sasl'] {
  if (mechanism === undefined) return undefined;
  if (mechanism !== 'oauthbearer') return { mechanism, username, password };
  const pairs = oauthbearer.extensions.map((pair) => [
    pair.slice(0, pair.indexOf('=')),
    pair.slice(pair.indexOf('=') + 1),
  ]);
  return { mechanism, ...oauthbearer, extensions: Object.fromEntries(pairs) };
}

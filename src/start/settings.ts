import { eventTypeOf } from '../capture/declare/make-plan.ts';
import type { Config } from '../config/config.ts';
import { extensions } from '../envelope/envelope.ts';
import { attributePrefix } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { createRetryPolicy, defaultBreaker } from '../publish/main/cluster-state.ts';
import type { BrokerSettings, S3Settings } from './adapters.ts';

// Translates the configuration into the settings of the parts that engine.ts builds.

/** The shares of `svc.broker.delivery-timeout-ms`. The tiers behind the topic get a quarter, two seconds at most. */
export function deliveryTimesOf({ broker: { deliveryTimeoutMs } }: Config) {
  const tiersMs = Math.min(Math.floor(deliveryTimeoutMs / 4), 2_000);
  return { topicMs: deliveryTimeoutMs - tiersMs, tiersMs };
}

export function queueSettingsOf(config: Config) {
  const { broker, retry } = config;
  const { topic, buffer, maxInFlight } = broker;
  const { topicMs: deliveryTimeoutMs } = deliveryTimesOf(config);
  const batch = { ...broker.batch, isAwaited: !broker.asyncMode };
  const { initialInterval: initialIntervalMs, maxInterval: maxIntervalMs } = retry;
  return {
    ...{ topic, batch, buffer, maxInFlight, deliveryTimeoutMs },
    retry: createRetryPolicy({ ...retry, initialIntervalMs, maxIntervalMs }),
    breaker: { ...defaultBreaker, random: Math.random },
  };
}

/** The destination of events for log lines. `undefined`: unknown. */
export function placeOf({ broker }: Config): string | undefined {
  const { isKafka, isFiles, addresses } = clientOf(broker.client);
  const where = addresses(broker).join(', ');
  if (isFiles) return `files in ${where}`;
  return isKafka ? `Kafka at ${where} through ${broker.client}` : undefined;
}

export function brokerSettingsOf({ broker }: Config): BrokerSettings {
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
  };
}

/** `undefined`: no backup goes to a bucket. */
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

/** Event types of targets that use the outbox. */
export function storedTypesOf({ targets }: Config): string[] {
  return targets.filter(({ outbox }) => outbox !== undefined).map(eventTypeOf);
}

/** The settings of the schema registry client. */
export const registryOptionsOf = ({ serde }: Config) => ({
  url: serde.schemaRegistryUrl ?? '',
  username: serde.schemaRegistryUsername,
  password: serde.schemaRegistryPassword,
  token: serde.schemaRegistryToken,
  tokenFile: serde.schemaRegistryTokenFile,
  caFile: serde.schemaRegistryCaFile,
});

/** The topics that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}

/** The headers that a record may have for its attributes in CloudEvents binary mode. */
export function attributeHeadersOf({ serde: { envelope, cloudevents } }: Config): readonly string[] {
  if (envelope !== 'cloudevents' || cloudevents.mode !== 'binary') return [];
  const core = ['specversion', 'id', 'source', 'type', 'time', 'subject'];
  return [...core, ...Object.values(extensions)].map((name) => attributePrefix + name);
}

/** The default consumer group of recoveries, which records what they have sent. */
export const recoveryGroup = 'svc-dlq-recovery';

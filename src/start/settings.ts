import { eventTypeOf } from '../capture/declare/make-plan.ts';
import type { Problem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { extensions } from '../envelope/envelope.ts';
import { createSnowflakeIds, createUuidV7, type WorkerIdLease } from '../envelope/ids.ts';
import { attributePrefix, defaultKeyId, readKeyText } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { nearestNames } from '../ground/names.ts';
import { isolate } from '../observe/otel-api.ts';
import type { ConfiguredKey } from '../protect/keys/key-ring.ts';
import { createRetryPolicy, defaultBreaker } from '../publish/main/cluster-state.ts';
import { type BrokerSettings, openWorkerIdLease, type S3Settings } from './adapters.ts';

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

export interface EventIds {
  next(): string;
  /** Why no id can be made: the clock was set back. `undefined`: ids are made. */
  problem(): string | undefined;
  /** The worker id of current event ids, and its origin. `undefined`: ids carry no worker id. */
  worker(): { readonly workerId: number; readonly source: string } | undefined;
  /** Requests a worker id that is unique across hosts. Ids do not wait for it. */
  lease(): void;
  /** Releases the leases. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that ends earlier does not make the others of its group rebalance. */
const leaseAfterMs = 1_000;

export function startIds(config: Config): EventIds {
  if (config.idGenerator.type === 'uuidv7')
    return {
      ...createUuidV7(),
      ...{ problem: () => undefined, worker: () => undefined, lease: () => {}, close: async () => {} },
    };
  const { workerId, leasePath: directory } = config.idGenerator;
  const ids = createSnowflakeIds({ workerId, directory });
  let lease: WorkerIdLease | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function start(): void {
    lease = openWorkerIdLease(config.broker.client, brokerSettingsOf(config), config.idGenerator.group);
    void isolate(async () => lease?.start(ids.grant));
  }

  return {
    next: ids.next,
    worker: ids.worker,
    problem() {
      try {
        ids.next();
        return undefined;
      } catch (error) {
        return `Events are refused: ${(error as Error).message}`;
      }
    },
    lease() {
      // `lease` may be called after `close`, when a broker answers late.
      if (!isClosed && isLeasedInKafka(config)) timer = setTimeout(start, leaseAfterMs).unref();
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(timer);
      await lease?.close(deadlineMs);
      ids.release();
    },
  };
}

/** Whether the worker id is leased through Kafka. */
export function isLeasedInKafka(config: Config): boolean {
  const { idGenerator, broker } = config;
  return (
    clientOf(broker.client).isKafka && idGenerator.workerId === undefined && idGenerator.lease !== 'host'
  );
}

/** Event types of targets that use the outbox. */
export function storedTypesOf({ targets }: Config): string[] {
  return targets.filter(({ outbox }) => outbox !== undefined).map(eventTypeOf);
}

/**
 * Warnings about event types with a schema in `svc.serde.schemas` that nothing publishes.
 *
 * @param published the known event types
 * @param areAll whether `published` is complete. If not, only a near miss of an event type without a schema is reported
 */
export function unusedSchemas(
  { serde }: Pick<Config, 'serde'>,
  published: Iterable<string>,
  areAll: boolean,
): Problem[] {
  const types = new Set(published);
  const named = serde.type === 'AVRO' ? Object.keys(serde.schemas ?? {}) : [];
  const bare = [...types].filter((each) => !named.includes(each));
  return named
    .filter((eventType) => !types.has(eventType))
    .flatMap((eventType) => {
      const [meant] = nearestNames(eventType, bare, areAll ? { count: 1 } : { count: 1, limit: 1 });
      if (meant === undefined && !areAll) return [];
      const of = meant === undefined ? '' : `: ${meant} has no schema`;
      return {
        name: 'svc.serde.schemas',
        message: `has a schema for ${eventType}, but no target publishes that event type${of}`,
        fix: meant === undefined ? 'Correct the event type or remove it' : `Did you mean ${meant}?`,
      };
    });
}

/** The keys of `svc.pii.crypto`. */
export function configuredKeys({
  defaultKey,
  keys,
}: Config['pii']['crypto']): (ConfiguredKey & { readonly key: Buffer })[] {
  const others = keys.map(({ id, key, status }) => ({ id, key: readKeyText(key).bytes, status }));
  if (defaultKey === undefined) return others;
  const hasPrimary = keys.some(({ status }) => status === 'primary');
  const status = hasPrimary ? undefined : 'primary';
  return [{ id: defaultKeyId, key: readKeyText(defaultKey).bytes, status }, ...others];
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

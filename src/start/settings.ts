import fs from 'node:fs';
import type { CapturePlan } from '../capture/call.ts';
import type { Declaration } from '../capture/declare/declarations.ts';
import {
  checkDeclaration,
  defaultEventType,
  makePlan,
  refuseInClear,
  withOutbox,
} from '../capture/declare/make-plan.ts';
import type { Names, Problem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';
import {
  createLeasedIds,
  createUuidV7,
  leaseWorkerId,
  type WorkerId,
  type WorkerIdLease,
} from '../envelope/ids.ts';
import type { Clock } from '../ground/clock.ts';
import { readKeyText } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { nearestNames } from '../ground/names.ts';
import type { Logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  ownKeyProvider,
  type StaticKeyProvider,
} from '../protect/keys/key-provider.ts';
import { type ConfiguredKey, defaultKeyId } from '../protect/keys/key-ring.ts';
import { createRetryPolicy, defaultBreaker } from '../publish/main/breaker.ts';
import type { QueueOptions } from '../publish/main/queue.ts';
import { type BrokerSettings, openKeyProvider, openWorkerIdLease, type S3Settings } from './adapters.ts';

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
export const goesToKafka = ({ broker }: Config): boolean => clientOf(broker.client).isKafka;

/** Where events go, as lines of the log say it; `undefined`: that is not known. */
export function placeOf({ broker }: Config): string | undefined {
  const { isKafka, isFiles, addresses } = clientOf(broker.client);
  const where = addresses(broker).join(', ');
  if (isFiles) return `files in ${where}`;
  return isKafka ? `Kafka at ${where} through ${broker.client}` : undefined;
}

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

/** Where event ids come from. */
export interface EventIds {
  next(): string;
  /** Why there are none at the moment: the clock. A worker id there always is, that of the host or a derived one. */
  problem(): string | undefined;
  /** What the ids of this moment carry; `undefined` where they have none. */
  worker(): WorkerId | undefined;
  /** Asks for a worker id that no other process has, on whatever host. Ids do not wait for it. */
  lease(): void;
  /** Gives back what the process leased for them. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that is over by then is not worth it that all the others hear of it. */
const leaseAfterMs = 1_000;

export function startIds(config: Config, clock: Clock, logger: Logger): EventIds {
  if (config.idGenerator.type === 'uuidv7')
    return {
      ...createUuidV7({ clock }),
      ...{ problem: () => undefined, worker: () => undefined, lease: () => {}, close: async () => {} },
    };
  const { workerId, leasePath: directory } = config.idGenerator;
  const host = leaseWorkerId({ workerId, directory, logger });
  const ids = createLeasedIds({ own: ownOf(config, host), source: 'kafka', clock });
  let lease: WorkerIdLease | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function start(): void {
    lease = openWorkerIdLease(
      config.broker.client,
      brokerSettingsOf(config, logger),
      config.idGenerator.group,
    );
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
      // A broker that hung may answer after the end.
      if (!isClosed && isLeasedInKafka(config)) timer = setTimeout(start, leaseAfterMs).unref();
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(timer);
      await lease?.close(deadlineMs);
      host.release();
    },
  };
}

function ownOf(
  { idGenerator }: Config,
  { workerId, exclusive }: { workerId: number; exclusive: boolean },
): WorkerId {
  if (idGenerator.workerId !== undefined) return { workerId, source: 'configured' };
  return { workerId, source: exclusive ? 'host' : 'derived' };
}

/** Whether a worker id is asked for in Kafka. */
export function isLeasedInKafka(config: Config): boolean {
  const { idGenerator } = config;
  return goesToKafka(config) && idGenerator.workerId === undefined && idGenerator.lease !== 'host';
}

// What targets of the configuration and of the code publish.

/** Throws `SvcError` when the target's expressions do not fit the function. */
export function planOfTarget(
  target: TargetConfig,
  parameterNames: readonly string[] | undefined,
  config: Pick<Config, 'pii'>,
): CapturePlan {
  const eventType = defaultEventType(target.function, target.module);
  const params = target.params ?? parameterNames;
  // The configuration did not know the names of the parameters.
  const { key, outbox, headers, payload, payloadIndex, pii } = target;
  refuseInClear({ key, outbox, headers, payload, payloadIndex, params }, pii ?? [], config);
  return makePlan(target.id, 'configuration', target, eventType, params);
}

/** Throws `SvcError` when its fields are wrong or do not fit the function. */
export function planOfDeclaration(
  { name, origin, options, parameterNames }: Declaration,
  config: Pick<Config, 'outbox'>,
): CapturePlan {
  checkDeclaration(options);
  return makePlan(name, origin, withOutbox(options, config), name, parameterNames);
}

/** So that their counters begin at 0. */
export function eventTypesOf({ targets }: Config): string[] {
  return targets.map(eventTypeOf);
}

/** Those of them that go to the outbox. */
export function storedTypesOf({ targets }: Config): string[] {
  return targets.filter(({ outbox }) => outbox !== undefined).map(eventTypeOf);
}

export function eventTypeOf({ eventType, function: name, module }: TargetConfig): string {
  return eventType ?? defaultEventType(name, module);
}

/**
 * Warnings about event types with a schema in `svc.serde.schemas` that nothing publishes.
 *
 * @param published the known event types
 * @param areAll whether there are no others. If there may be others, only a name that is nearly that of an event type without a
 * schema is reported
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

type KmsConfig = Config['pii']['kms'];

/** The key service of `svc.pii.kms`, loaded at its first use, or what the application has registered. What cannot work with these settings is an error of every call. */
export function openProvider({ keys, aws, vault }: KmsConfig, type: string): KeyProvider {
  if (type !== 'aws' && type !== 'vault') return ownKeyProvider(type);
  const defaultKey = type === 'aws' ? aws.defaultKeyArn : vault.defaultKeyPath;
  const named: Names = defaultKey === undefined ? { ...keys } : { [defaultKeyId]: [defaultKey], ...keys };
  const engine = vault.mode === 'kv' ? 'kv-v2' : vault.mode;
  const settings =
    type === 'aws'
      ? {
          keys: named,
          region: aws.region,
          endpoint: aws.endpoint,
          encryptionContext: single(aws.encryptionContext),
        }
      : { ...vault, keys: named, engine, mount: vault.mountPath };
  let opening: Promise<KeyProvider> | undefined;
  const open = <P extends KeyProvider>(): Promise<P> => {
    opening ??= openKeyProvider(type, settings);
    return opening as Promise<P>;
  };
  const { tokenFile } = vault;
  const watch =
    type === 'vault' && tokenFile !== undefined
      ? (onChange: () => void) => watchFile(tokenFile, onChange)
      : undefined;
  const close = async () => (await opening?.catch(() => undefined))?.close?.();
  if (type === 'vault' && engine !== 'transit') {
    return {
      name: `vault-${engine}`,
      supportsEnvelopeEncryption: false,
      getKey: async (keyId) => (await open<StaticKeyProvider>()).getKey(keyId),
      ...(watch && { watch }),
      close,
    };
  }
  return {
    name: type === 'aws' ? 'aws-kms' : 'vault-transit',
    supportsEnvelopeEncryption: true,
    generateDataKey: async (keyId) => (await open<EnvelopeKeyProvider>()).generateDataKey(keyId),
    decryptDataKey: async (keyId, key) => (await open<EnvelopeKeyProvider>()).decryptDataKey(keyId, key),
    ...(watch && { watch }),
    close,
  };
}

/** By looking once a second: links that Kubernetes swaps, and files that are not there yet, are seen as well. */
function watchFile(file: string, onChange: () => void): () => void {
  fs.watchFile(file, { interval: 1_000, persistent: false }, onChange);
  return () => fs.unwatchFile(file, onChange);
}

function single(names: Names | undefined): Record<string, string> | undefined {
  return names && Object.fromEntries(Object.entries(names).map(([name, [text = '']]) => [name, text]));
}

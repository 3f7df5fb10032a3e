import fs from 'node:fs';
import type { AwsKmsOptions } from '../adapters/aws-kms/aws-kms-key-provider.ts';
import type { KafkaClientOptions } from '../adapters/kafka/kafka-client-options.ts';
import type { LoadTransport } from '../adapters/kafka/transport.ts';
import type { KafkajsTopicReaderOptions } from '../adapters/kafkajs/kafkajs-topic-reader.ts';
import type * as LocalBackups from '../adapters/local-backup/local-backup.ts';
import type { LocalBackupOptions } from '../adapters/local-backup/local-backup.ts';
import type { LocalSourceOptions } from '../adapters/local-backup/local-source.ts';
import type { SqlStoreOptions } from '../adapters/sql/sql-store.ts';
import type { VaultKeyProviderOptions } from '../adapters/vault/vault-key-provider.ts';
import type { Names } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import type { WorkerIdLease } from '../envelope/ids.ts';
import { defaultKeyId } from '../ground/event-fields.ts';
import { loadChunk, loadOnce } from '../ground/lifecycle.ts';
import type { ClientName } from '../ground/management.ts';
import { logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  ownKeyProvider,
  type StaticKeyProvider,
} from '../protect/keys/key-provider.ts';
import type { AskAccess, Broker, SendResult } from '../publish/broker.ts';
import { openOwnBroker } from '../publish/own-broker.ts';
import type { RecoverySource } from '../publish/recovery-source.ts';
import type { EventBackupStrategy } from '../publish/tier.ts';
import type { TailRange, TopicReader, TopicTail } from '../publish/topic-reader.ts';
import type { SchemaRegistry } from '../serialize/avro/schema-registry.ts';
import { type Dialect, dialectOf } from '../transaction/driver.ts';

/** The settings of all broker adapters. */
interface BrokerSettings extends KafkaClientOptions {
  /** Directory of the `file` broker. */
  readonly directory: string;
}

function brokerSettingsOf({ broker }: Config): BrokerSettings {
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

/** The settings of the schema registry client. */
const registryOptionsOf = ({ serde }: Config) => ({
  url: serde.schemaRegistryUrl ?? '',
  username: serde.schemaRegistryUsername,
  password: serde.schemaRegistryPassword,
  token: serde.schemaRegistryToken,
  tokenFile: serde.schemaRegistryTokenFile,
  caFile: serde.schemaRegistryCaFile,
});

/** Methods of a port. The first call loads the implementation. */
function lazy<Port extends object, const Name extends keyof Port>(
  load: () => Promise<Port>,
  names: readonly Name[],
): Pick<Port, Name> {
  const methods = names.map((name) => [
    name,
    async (...given: unknown[]) => {
      const port = await load();
      return (port[name] as (...given: unknown[]) => unknown).apply(port, given);
    },
  ]);
  return Object.fromEntries(methods) as Pick<Port, Name>;
}

interface TopicAccess {
  reader(settings: BrokerSettings & KafkajsTopicReaderOptions): Promise<TopicReader>;
  tail(settings: BrokerSettings & TailRange): Promise<TopicTail>;
}

/** The parts of a client. Each is loaded at its first use. */
interface ClientAdapter {
  open(settings: BrokerSettings): Promise<Broker>;
  /** The permissions of this process on the broker. Omitted: the broker cannot be asked. */
  access?(settings: BrokerSettings): Promise<AskAccess>;
  /** Omitted: svc does not read its topics. */
  readonly topics?: TopicAccess;
  /** Kafka only: the connection below its producers. */
  readonly transport?: LoadTransport;
}

/** kafkajs reads the topics of every Kafka client. */
const kafkaAdapter = (name: ClientName, transport: LoadTransport): ClientAdapter => ({
  open: async (settings) =>
    (await import('../adapters/kafka/kafka-broker.ts')).createKafkaBroker(name, settings, transport),
  access: async (settings) =>
    (await import('../adapters/kafka/kafka-broker.ts')).createKafkaAccess(settings, transport),
  topics: {
    reader: async (settings) =>
      (await import('../adapters/kafkajs/kafkajs-topic-reader.ts')).kafkajsTopics.reader(settings),
    tail: async (settings) =>
      (await import('../adapters/kafkajs/kafkajs-topic-reader.ts')).kafkajsTopics.tail(settings),
  },
  transport,
});

/** The one table of adapters. A new broker is one row here, one folder under `adapters/` and one call of the contract suite. */
const adapters: Readonly<Record<ClientName, ClientAdapter>> = {
  kafkajs: kafkaAdapter('kafkajs', async (options) =>
    (await import('../adapters/kafkajs/kafkajs-transport.ts')).loadKafkajsTransport(options),
  ),
  platformatic: kafkaAdapter('platformatic', async (options) =>
    (await import('../adapters/platformatic/platformatic-transport.ts')).loadPlatformaticTransport(options),
  ),
  file: {
    open: async (settings) => (await import('../adapters/file/file-broker.ts')).fileBroker.open(settings),
    access: async (settings) => (await import('../adapters/file/file-broker.ts')).fileBroker.access(settings),
    topics: {
      reader: async (settings) =>
        (await import('../adapters/file/file-topic-reader.ts')).fileTopics.reader(settings),
      tail: async (settings) =>
        (await import('../adapters/file/file-topic-reader.ts')).fileTopics.tail(settings),
    },
  },
  memory: {
    open: async () => (await import('../adapters/memory/memory-broker.ts')).createMemoryBroker(),
  },
};

/** Includes brokers that the application has registered. */
const adapterOf = (name: string): ClientAdapter =>
  Object.hasOwn(adapters, name)
    ? adapters[name as ClientName]
    : { open: (settings) => openOwnBroker(name, settings) };

/** A broker whose adapter and vendor are loaded at its first use, so that the start pays for neither. */
export function openBroker(config: Config, options: Pick<BrokerSettings, 'makesTopics'> = {}): Broker {
  const { client: name } = config.broker;
  let opened: Broker | undefined;
  const load = loadOnce(async () => {
    opened = await adapterOf(name).open({ ...brokerSettingsOf(config), ...options });
    return opened;
  });
  const orFailure = async (use: (broker: Broker) => Promise<SendResult>): Promise<SendResult> => {
    try {
      return await use(await load());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `the broker client "${name}" could not be loaded: ${reason}`;
      return { ok: false, failure: { kind: 'fatal', cause: 'AdapterNotLoaded', message } };
    }
  };
  return {
    name,
    connect: () => orFailure((broker) => broker.connect()),
    send: (topic, partition, records) => orFailure((broker) => broker.send(topic, partition, records)),
    unref: () =>
      void load.started()?.then(
        (broker) => broker.unref?.(),
        () => {},
      ),
    ...lazy(load, ['partitionsFor', 'describe']),
    traffic: () => opened?.traffic?.(),
    heldBack: (topic, partition) => opened?.heldBack?.(topic, partition),
    close: async (deadlineMs) => (await load.started()?.catch(() => undefined))?.close(deadlineMs),
  };
}

/** Memory, and brokers that the application has registered. */
const nobody: AskAccess = async () => ({ cluster: undefined, topics: [], group: undefined });

/** The permissions of this process on the broker. */
export async function openBrokerAccess(config: Config): Promise<AskAccess> {
  return (await adapterOf(config.broker.client).access?.(brokerSettingsOf(config))) ?? nobody;
}

/** Worker ids through a group in Kafka. The adapter is loaded at `start`. */
export function openWorkerIdLease(config: Config): WorkerIdLease {
  const { group } = config.idGenerator;
  let opening: Promise<WorkerIdLease> | undefined;
  const open = async (): Promise<WorkerIdLease> => {
    const { createKafkaGroup, createGroupLease, groupRefusals } = await import('../adapters/kafka/group.ts');
    const settings = brokerSettingsOf(config);
    const access = createKafkaGroup(settings, adapterOf(config.broker.client).transport as LoadTransport);
    const refusals = groupRefusals(group, settings);
    return createGroupLease({ access, group, refusals });
  };
  return {
    start(onGrant) {
      opening = open();
      opening.then(
        (lease) => lease.start(onGrant),
        (error: Error) => logger.warn(`no worker id from Kafka: ${error.message}`),
      );
    },
    close: async (deadlineMs) => (await opening?.catch(() => undefined))?.close(deadlineMs),
  };
}

/** Adapters that a command or an event asks for, each loaded at its first use. */
export const adapterModules = {
  /** Reads the Avro of the configured registry. */
  avroReader: async (config: Config) =>
    (await import('../adapters/schema-registry/avro-reader.ts')).createAvroReader(registryOptionsOf(config)),
  backupFolder: () => import('../adapters/local-backup/backup-directory.ts'),
  debezium: () => import('../adapters/debezium/connector.ts'),
  localBackup: () => import('../adapters/local-backup/local-backup.ts'),
  async s3({ broker: { backup } }: Config) {
    const { s3Backup } = await import('../adapters/s3-backup/s3-backup.ts');
    const { s3Bucket: bucket = '', s3Prefix: prefix, s3Region: region, s3Endpoint: endpoint } = backup;
    const settings = { bucket, prefix, region, endpoint };
    const onNoChecksums = (message: string): void => logger.info(`backup: ${message}`);
    return {
      open: () => s3Backup.open({ ...settings, onNoChecksums }),
      source: () => s3Backup.source(settings),
      probe: () => s3Backup.probe(settings),
    };
  },
  sqlSchema: () => import('../adapters/sql/schema.ts'),
};

type LocalBackup = ReturnType<typeof LocalBackups.localBackup.open>;

const outboxStores: Readonly<Record<Dialect, (options: SqlStoreOptions) => Promise<OutboxStore>>> = {
  postgres: async (options) =>
    (await import('../adapters/postgres/postgres-store.ts')).createPostgresStore(options),
  mysql: async (options) => (await import('../adapters/mysql/mysql-store.ts')).createMysqlStore(options),
  sqlite: async (options) => (await import('../adapters/sqlite/sqlite-store.ts')).createSqliteStore(options),
};

/** The outbox table. The scheme of its URL selects the store, which is loaded at its first use. */
export function openOutboxStore(options: SqlStoreOptions): OutboxStore {
  const dialect = dialectOf(options.url) ?? 'postgres';
  const load = loadOnce(() => outboxStores[dialect](options));
  return {
    name: dialect,
    ...lazy(load, [
      'prepare',
      'senders',
      'traits',
      'insert',
      'claim',
      'holders',
      'pending',
      'failedAggregates',
    ]),
    ...lazy(load, ['ack', 'fail', 'lastId', 'holds', 'countPending', 'statistics', 'checkRows']),
    ...lazy(load, [
      'missingGuard',
      'inClearTo',
      'read',
      'retry',
      'discard',
      'partition',
      'cleanup',
      'isFull',
    ]),
    release: async (owner) => (await load.started())?.release(owner),
    notices:
      dialect !== 'postgres'
        ? undefined
        : {
            send: async (shards) => (await load()).notices?.send(shards),
            listen: async (hear, stopping) => (await load()).notices?.listen(hear, stopping),
          },
    close: async (deadlineMs) => (await load.started())?.close(deadlineMs),
  };
}

/** A script that ends earlier does not load the backup, unless an event goes there. */
const backupAfterMs = 50;

/** Local backup files. The adapter is loaded after `backupAfterMs` or at its first use. Until then `state` returns `undefined`. */
export function openLocalBackup(options: LocalBackupOptions): Omit<LocalBackup, 'state'> & {
  state(): ReturnType<LocalBackup['state']> | undefined;
} {
  let loaded: LocalBackup | undefined;
  const load = loadOnce(async () => {
    const { localBackup } = await import('../adapters/local-backup/local-backup.ts');
    loaded ??= localBackup.open(options);
    return loaded;
  });
  // An error reaches the caller of `store`.
  setTimeout(() => load().catch(() => {}), backupAfterMs).unref();
  return {
    name: 'local files',
    store: async (event) => (loaded ?? (await load())).store(event),
    storeSync(events) {
      // The process ends in its first tick.
      loaded ??= loadLocalBackups().localBackup.open(options);
      loaded.storeSync(events);
    },
    endSync: () => loaded?.endSync(),
    state: () => loaded?.state(),
    ...lazy(load, ['finishSegments', 'journal', 'recount']),
    close: async (deadlineMs) => (loaded ?? (await load.started()))?.close(deadlineMs),
  };
}

function loadLocalBackups(): typeof LocalBackups {
  return loadChunk(import.meta.url, '../adapters/local-backup/local-backup.ts') as typeof LocalBackups;
}

export async function openLocalSource(options: LocalSourceOptions): Promise<RecoverySource> {
  return (await import('../adapters/local-backup/local-source.ts')).createLocalSource(options);
}

/** Backup to S3, loaded at the first event that needs it. */
export function openS3Backup(config: Config): EventBackupStrategy {
  const load = loadOnce(async () => (await adapterModules.s3(config)).open());
  return {
    name: `S3 bucket ${config.broker.backup.s3Bucket}`,
    ...lazy(load, ['store']),
    close: async (deadlineMs) => (await load.started())?.close?.(deadlineMs),
  };
}

/** Whether svc can read the topics of a client. */
export const readsTopics = (client: string): boolean => adapterOf(client).topics !== undefined;

/** Only for a client that `readsTopics`. */
export const openTopicReader = async (
  config: Config,
  options: Omit<KafkajsTopicReaderOptions, keyof KafkaClientOptions>,
): Promise<TopicReader> => topicAccessOf(config).reader({ ...brokerSettingsOf(config), ...options });

/** Follows a topic, only for a client that `readsTopics`. `fromMs` and `untilMs` compare with the time at which records were stored. */
export const openTopicTail = async (config: Config, range: TailRange): Promise<TopicTail> =>
  topicAccessOf(config).tail({ ...brokerSettingsOf(config), ...range });

const topicAccessOf = ({ broker }: Config): TopicAccess => adapterOf(broker.client).topics as TopicAccess;

/** Keys: the values of `svc.pii.kms.type`. Each rejects with an `SvcError` for invalid settings. The first call loads the vendor's package. */
const keyProviders = {
  aws: async (settings: AwsKmsOptions): Promise<KeyProvider> =>
    (await import('../adapters/aws-kms/aws-kms-key-provider.ts')).createAwsKmsKeyProvider(settings),
  vault: async (settings: VaultKeyProviderOptions): Promise<KeyProvider> =>
    (await import('../adapters/vault/vault-key-provider.ts')).createVaultKeyProvider(settings),
};

/** The schema registry, loaded at its first use. Requests run isolated from the application's context. */
export function openSchemaRegistry(config: Config): SchemaRegistry {
  const options = registryOptionsOf(config);
  const load = loadOnce(async () =>
    (await import('../adapters/schema-registry/schema-registry.ts')).createSchemaRegistry(options),
  );
  return {
    address: options.url,
    register: (subject) => isolate(async () => (await load()).register(subject)),
    lookUp: (subject) => isolate(async () => (await load()).lookUp(subject)),
    isCompatible: (subject) => isolate(async () => (await load()).isCompatible(subject)),
    schemaOf: (id) => isolate(async () => (await load()).schemaOf(id)),
  };
}

/**
 * The key service of `svc.pii.kms`, loaded at its first use, or the provider that the application has registered. Invalid settings
 * are an error of every call.
 */
export function openProvider({ keys, aws, vault }: Config['pii']['kms'], type: string): KeyProvider {
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
    opening ??= keyProviders[type](settings);
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

/** Polls once a second, which also sees symbolic links that Kubernetes swaps, and files created later. */
function watchFile(file: string, onChange: () => void): () => void {
  fs.watchFile(file, { interval: 1_000, persistent: false }, onChange);
  return () => fs.unwatchFile(file, onChange);
}

function single(names: Names | undefined): Record<string, string> | undefined {
  return names && Object.fromEntries(Object.entries(names).map(([name, [text = '']]) => [name, text]));
}

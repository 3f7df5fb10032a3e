import { accessSync, constants, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { eventTypeOf } from '../../capture/declare/make-plan.ts';
import type { Config } from '../../config/config.ts';
import { createDecryptionKeys, type DecryptionKeys } from '../../consumer/decrypt-fields.ts';
import { toEnvelope } from '../../envelope/envelope.ts';
import { isLeasedInKafka } from '../../envelope/ids.ts';
import { inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { defaultKeyId } from '../../ground/event-fields.ts';
import { nearestManifest } from '../../ground/files.ts';
import { clientOf } from '../../ground/management.ts';
import { foreignApiFrom, isolate } from '../../observe/otel-api.ts';
import { judge } from '../../outbox/outbox-health.ts';
import { toProviderError } from '../../protect/keys/key-provider.ts';
import { type ConfiguredKey, configuredKeys } from '../../protect/keys/key-ring.ts';
import type { AccessReport } from '../../publish/broker.ts';
import type { TailRange, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import { codecsOf, subjectOf } from '../../serialize/avro/avro.ts';
import { type Dialect, dialectOf, foreignDrivers, foreignText } from '../../transaction/driver.ts';
import {
  adapterModules,
  openBrokerAccess,
  openProvider,
  openSchemaRegistry,
  openTopicTail,
  readsTopics,
} from '../adapters.ts';
import { topicsOf } from '../settings.ts';
import { useOutbox } from './outbox.ts';

interface BucketReport {
  readonly bucket: string;
  /** The key of a probe that could not be deleted. */
  readonly left?: string;
  /** Why the probe was not stored; one line. */
  readonly problem?: string;
}

/** Stores a probe in the bucket of the backup and deletes it. `undefined`: no bucket is configured. Never rejects. */
async function inspectBackup(config: Config): Promise<BucketReport | undefined> {
  const { s3Enabled, s3Bucket: bucket } = config.broker.backup;
  if (!s3Enabled || bucket === undefined) return undefined;
  try {
    const left = await (await adapterModules.s3(config)).probe();
    return { bucket, ...(left !== undefined && { left }) };
  } catch (error) {
    return { bucket, problem: (error as Error).message };
  }
}

/** Includes the group that was asked for. */
type BrokerReport = AccessReport & { readonly groupName: string | undefined };

const longestMs = 15_000;

/**
 * The permissions of the application on the configured broker. Writes nothing. Rejects with a one-line `Error` if the broker does not
 * answer within `limitMs`.
 */
export async function inspectBroker(config: Config, limitMs = longestMs): Promise<BrokerReport> {
  const { broker, idGenerator } = config;
  const topics = [...new Set([...topicsOf(config), ...(broker.dlqTopic ? [broker.dlqTopic] : [])])];
  const group = isLeasedInKafka(config) ? idGenerator.group : undefined;
  const ending = new AbortController();
  const where = broker.bootstrapServers.join(', ');
  const late = (): never => {
    throw new Error(`no answer from Kafka (${where}) within ${limitMs} ms`);
  };
  try {
    const ask = await openBrokerAccess(config);
    // Connections are unref'd.
    const report = await inTime(ask({ topics, group }, ending.signal), { limitMs, keepsAlive: true, late });
    return { ...report, groupName: group };
  } finally {
    ending.abort();
  }
}

interface FolderReport {
  /** The option's name in the documentation. */
  readonly name: string;
  readonly folder: string;
  /** One line. */
  readonly problem?: string;
}

/**
 * Whether this user may write to the configured folders. The check of the backup folder is that of the start, which corrects the rights of
 * svc's own folder. Creates nothing.
 */
async function inspectFolders({ broker, idGenerator }: Config): Promise<FolderReport[]> {
  const { backup, dlqBackupPath } = broker;
  const named: readonly (readonly [name: string, folder: string | undefined])[] = [
    ['svc.broker.file.path', clientOf(broker.client).isFiles ? broker.file.path : undefined],
    ['svc.id-generator.lease-path', idGenerator.type === 'snowflake' ? idGenerator.leasePath : undefined],
  ];
  const others = named.flatMap(([name, folder]) =>
    folder === undefined ? [] : reportOf(name, folder, problemOf(folder)),
  );
  if (!backup.localEnabled) return others;
  const { checkBackupDirectory } = await adapterModules.backupFolder();
  const problem = await checkBackupDirectory(dlqBackupPath).then(
    () => undefined,
    ({ message }: Error) => message,
  );
  return [reportOf('svc.broker.dlq-backup-path', dlqBackupPath, problem), ...others];
}

function reportOf(name: string, folder: string, problem: string | undefined): FolderReport {
  return { name, folder, ...(problem !== undefined && { problem }) };
}

/** A missing folder would be created in its nearest existing parent. */
function problemOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const found = statSync(at, { throwIfNoEntry: false });
      if (found === undefined && dirname(at) !== at) continue;
      if (!found?.isDirectory()) return `${at} is not a folder`;
      accessSync(at, constants.W_OK | constants.X_OK);
      return undefined;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOTDIR' && dirname(at) !== at) continue;
      return `this user cannot write to ${at} (${code})`;
    }
  }
}

/** The answers of the key service for the configured keys. */
interface KeysReport {
  readonly provider: string;
  readonly keys: readonly { readonly id: string /** One line. */; readonly problem?: string }[];
}

/**
 * Requests each key as an event would, and keeps none. `undefined`: there is no key service, or the application registers the provider.
 * Never rejects.
 */
async function inspectKeys(config: Config): Promise<KeysReport | undefined> {
  const { kms } = config.pii;
  if (!kms.enabled || (kms.type !== 'aws' && kms.type !== 'vault')) return undefined;
  const provider = openProvider(kms, kms.type);
  const ask = async (id: string): Promise<KeysReport['keys'][number]> => {
    try {
      const made = await isolate(async () =>
        provider.supportsEnvelopeEncryption
          ? (await provider.generateDataKey(id)).plaintext
          : provider.getKey(id),
      );
      made.fill(0);
      return { id };
    } catch (error) {
      return { id, problem: toProviderError(error, provider.name).message };
    }
  };
  const keys = await Promise.all([...new Set(namedKeyIds(config))].map(ask));
  await provider.close?.();
  return { provider: provider.name, keys };
}

/** What the application's package.json names and svc cannot follow, a line each: drivers, and copies of the OpenTelemetry API. */
export function inspectManifest({ outbox, baseDir }: Config): string[] {
  const manifest = nearestManifest(baseDir);
  if (manifest === undefined) return [];
  const wanted = outbox.enabled ? dialectOf(outbox.datasource.url ?? '') : undefined;
  const drivers = foreignDrivers.filter(
    ({ specifier, dialect }) => dialect === wanted && manifest.dependencies.includes(specifier),
  );
  const place = join(manifest.folder, 'package.json');
  const lines = [...manifest.dependencies, ...manifest.devDependencies]
    .filter((name) => /^@opentelemetry\/(?:sdk-|auto-instrumentations-)|^@vercel\/otel$/.test(name))
    .map((name) => foreignApiFrom(fileOf(name, place) ?? place))
    .filter((line) => line !== undefined);
  return [
    ...drivers.map(
      ({ specifier }) => `svc.outbox: package.json names ${specifier}; ${foreignText(specifier)}`,
    ),
    ...new Set(lines),
  ];
}

function fileOf(name: string, place: string): string | undefined {
  try {
    return createRequire(place).resolve(name);
  } catch {
    return undefined;
  }
}

/** The outbox tables as a relay finds them. */
export interface TablesReport {
  readonly dialect: Dialect | null;
  readonly table: string;
  readonly pending?: number;
  /** The missing statement that keeps out rows that a relay cannot find. */
  readonly guard?: string | undefined;
  readonly warning?: string;
  /** The address of a database on another machine, if the connection is not encrypted. */
  readonly inClearTo?: string | undefined;
  /** Why a relay could not send. */
  readonly code?: string;
  readonly problem?: string;
}

/**
 * Checks that the tables exist and fit the settings, and that the user has the rights of a relay. Rejects only with errors that are not
 * an `SvcError`.
 */
export async function inspectOutbox(config: Config): Promise<TablesReport> {
  const { table, datasource } = config.outbox;
  const scene = { dialect: dialectOf(datasource.url ?? '') ?? null, table };
  const settings = { ...config.outbox, dialect: scene.dialect ?? 'postgres' };
  try {
    return await useOutbox(config, async (store) => {
      await store.prepare();
      await store.checkRows();
      const { refusal, remark: warning } = judge(settings, await store.senders(), false);
      if (refusal !== undefined) throw refusal;
      const pending = await store.countPending();
      const guard = await store.missingGuard();
      const inClearTo = await store.inClearTo();
      const remarks = {
        ...(warning !== undefined && { warning }),
        ...(inClearTo !== undefined && { inClearTo }),
      };
      return { ...scene, pending, guard, ...remarks };
    });
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    const { code, message } = error;
    return { ...scene, code, problem: message };
  }
}

interface SchemasReport {
  readonly registry: string;
  readonly schemas: readonly SchemaReport[];
}

interface SchemaReport {
  readonly eventType: string;
  readonly subject?: string;
  /** `registered`: exists. `compatible`: would be a new version. `new`: would be the first version. */
  readonly state?: 'registered' | 'compatible' | 'new';
  /** One line. */
  readonly problem?: string;
}

/** Checks the targets' schemas in the registry without registering any. `undefined`: events are not Avro. Never rejects. */
async function inspectSchemas(config: Config): Promise<SchemasReport | undefined> {
  const { type, subjectNameStrategy, autoRegister, schemaRegistryUrl = '' } = config.serde;
  if (type === 'JSON') return undefined;
  const registry = openSchemaRegistry(config);
  const codecOf = codecsOf(config);

  async function ask(eventType: string, topic: string): Promise<SchemaReport> {
    let subject: string | undefined;
    try {
      const { name, schema } = codecOf(eventType);
      subject = subjectOf(subjectNameStrategy, topic, name);
      if (!autoRegister) {
        await registry.lookUp({ subject, schema });
        return { eventType, subject, state: 'registered' };
      }
      const isCompatible = await registry.isCompatible({ subject, schema });
      if (isCompatible !== false)
        return { eventType, subject, state: isCompatible === undefined ? 'new' : 'compatible' };
      const problem = `the schema of ${eventType} is not compatible with subject ${subject}: change the schema, or the compatibility of the subject`;
      return { eventType, subject, problem };
    } catch (error) {
      return { eventType, ...(subject && { subject }), problem: (error as SvcError).message };
    }
  }

  const asked = new Map(
    config.targets.map((target) => {
      const of = [eventTypeOf(target), target.topic ?? config.broker.topic] as const;
      return [of.join('\n'), of];
    }),
  );
  const schemas = await Promise.all([...asked.values()].map(([eventType, topic]) => ask(eventType, topic)));
  return { registry: schemaRegistryUrl, schemas };
}

/** Checks broker, backup bucket, schema registry, key service and folders side by side. Never rejects. */
export async function inspectServices(config: Config) {
  const [broker, backup, serde, keys, folders] = await Promise.all([
    inspectBroker(config).catch(({ message }: Error) => ({ problem: message })),
    inspectBackup(config),
    inspectSchemas(config),
    inspectKeys(config),
    inspectFolders(config),
  ]);
  return { broker, backup, serde, keys, folders };
}

export type { TailRange, TopicRecord };

/** Follows a topic, batch by batch, until the signal or `range.untilMs`. Rejects with one-line errors. */
export function tailTopic(
  config: Config,
  range: TailRange,
  signal: AbortSignal,
  onRecords: (records: readonly TopicRecord[]) => Promise<void>,
): Promise<void> {
  return withTail(config, range, async (tail) => {
    for await (const records of tail.read(signal)) await onRecords(records);
  });
}

/** The newest `count` records that `accept` takes, oldest first. Rejects with one-line errors. */
export async function newestOf(
  config: Config,
  { topic, count, accept }: { topic: string; count: number; accept: (record: TopicRecord) => boolean },
  signal: AbortSignal,
): Promise<readonly TopicRecord[]> {
  let newest: TopicRecord[] = [];
  const byTime = (a: TopicRecord, b: TopicRecord): number =>
    a.partition === b.partition ? a.offset - b.offset : a.timestamp - b.timestamp;
  await withTail(config, { topic, fromMs: 0, untilMs: undefined }, async (tail) => {
    while (newest.length < count && tail.partitionsLeft().length > 0 && !signal.aborted) {
      for await (const records of tail.older(Math.min(count, newestAtOnce), signal)) {
        newest.push(...records.filter(accept));
        if (newest.length > 2 * (count + newestAtOnce)) newest = newest.sort(byTime).slice(-count);
      }
    }
  });
  return newest.sort(byTime).slice(-count);
}

/** Records per partition. */
const newestAtOnce = 1_000;

async function withTail(
  config: Config,
  range: TailRange,
  work: (tail: TopicTail) => Promise<void>,
): Promise<void> {
  const { client } = config.broker;
  if (!readsTopics(client))
    throw new SvcError(
      'SVC_PUBLISH_BROKER',
      `svc reads topics from Kafka and from files only. For topics of "${client}", use the tools of that broker`,
    );
  // Keeps the process alive, because connections are unref'd.
  const hold = setInterval(() => {}, 60_000);
  const tail = await openTopicTail(config, range);
  try {
    await isolate(() => tail.open());
    await work(tail);
  } finally {
    await tail.close();
    clearInterval(hold);
  }
}

/** Decodes a value: JSON, a CloudEvent as its envelope, or Avro of the configured registry. Rejects with one-line errors. */
export function valueReader(config: Config): (record: TopicRecord) => Promise<unknown> {
  let avro: ReturnType<typeof adapterModules.avroReader> | undefined;
  return async ({ value, headers, timestamp }) => {
    if (value.length === 0) return null;
    // Confluent's wire format starts with a zero byte, which JSON never does.
    if (value[0] !== 0) {
      return toEnvelope(parsed(value), headers, timestamp);
    }
    if (config.serde.schemaRegistryUrl === undefined)
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its value is Avro: set svc.serde.schema-registry-url');
    avro ??= adapterModules.avroReader(config);
    return (await avro).read(value);
  };
}

function parsed(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString());
  } catch {
    throw new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', 'its value is neither JSON nor Avro');
  }
}

interface DecryptionRequest {
  /** `undefined`: no configuration is used. */
  readonly config: Config | undefined;
  /** More keys. They override keys of the configuration with the same id. */
  readonly keys: readonly ConfiguredKey[];
  /** As in `PII_ENCRYPTION_KEY`: the key with the id `default`. Ignored with a configuration, which contains it. */
  readonly defaultKey: string | undefined;
  /** More ids to request from the key service. */
  readonly keyIds: readonly string[];
}

/** All keys for one command. Throws errors of the keys. */
export function openDecryption({ config, keys, defaultKey, keyIds }: DecryptionRequest): DecryptionKeys {
  const ofConfig = config === undefined ? ofEnvironment(defaultKey) : configuredKeys(config.pii.crypto);
  const own = new Set(keys.map(({ id }) => id));
  // Reading needs no primary key.
  const all = [...keys, ...ofConfig.filter(({ id }) => !own.has(id))].map(({ id, key }) => ({ id, key }));
  const kms = config?.pii.kms;
  if (config === undefined || kms?.enabled !== true || kms.type === undefined) {
    if (keyIds.length > 0)
      throw new SvcError('SVC_PROTECT_KEY_LIST', '--key-id needs a key service: configure svc.pii.kms');
    return createDecryptionKeys({ keys: all });
  }
  const ids = [...new Set([...namedKeyIds(config), ...keyIds])];
  if (ids.length === 0)
    throw new SvcError(
      'SVC_PROTECT_KEY_LIST',
      'no key of the key service is named: set svc.pii.kms.keys, or give --key-id',
    );
  return createDecryptionKeys({ keys: all, provider: openProvider(kms, kms.type), keyIds: ids });
}

function ofEnvironment(key: string | undefined): ConfiguredKey[] {
  return key === undefined ? [] : [{ id: defaultKeyId, key }];
}

/** Keys that rules encrypt with and keys named in the configuration, which marks of classes may use. */
function namedKeyIds({ pii, targets }: Config): string[] {
  const { keys, aws, vault, type } = pii.kms;
  const hasDefault = type === 'aws' ? aws.defaultKeyArn : vault.defaultKeyPath;
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  return [
    ...(hasDefault === undefined ? [] : [defaultKeyId]),
    ...Object.keys(keys ?? {}),
    ...rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ keyId }) => keyId ?? defaultKeyId),
  ];
}

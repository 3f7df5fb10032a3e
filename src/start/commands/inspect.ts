import { accessSync, constants, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { createDecryptionKeys, type DecryptionKeys, toEnvelope } from '../../consumer/decrypt-fields.ts';
import { inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { nearestManifest } from '../../ground/files.ts';
import { clientOf } from '../../ground/management.ts';
import { parseRulePath } from '../../ground/pii-rule.ts';
import { consoleLogger, type Logger } from '../../observe/logger.ts';
import { apiFoundFrom, foreignApi, isolate } from '../../observe/otel-api.ts';
import { toProviderError } from '../../protect/keys/key-provider.ts';
import { type ConfiguredKey, defaultKeyId } from '../../protect/keys/key-ring.ts';
import type { AccessReport } from '../../publish/broker.ts';
import type { TailRange, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import { subjectOf } from '../../serialize/avro/avro.ts';
import { type Dialect, dialectOf } from '../../transaction/driver.ts';
import {
  checkBackupFolder,
  openAvroReader,
  openBrokerAccess,
  openTopicTail,
  probeS3,
  readsTopics,
} from '../adapters.ts';
import { codecsOf, openRegistry } from '../open-avro.ts';
import { foreignDrivers, foreignText, useOutbox } from '../outbox/outbox-health.ts';
import { refusalOf, remarkOf } from '../outbox/senders.ts';
import { registryOptionsOf } from '../serde.ts';
import {
  brokerSettingsOf,
  configuredKeys,
  eventTypeOf,
  isLeasedInKafka,
  openProvider,
  s3SettingsOf,
} from '../settings.ts';

/** What became of a probe in the bucket of the backup. */
export interface BucketReport {
  readonly bucket: string;
  /** The key of the probe, where svc may not delete it. */
  readonly left?: string;
  /** Why it was not stored; one line. */
  readonly problem?: string;
}

/** Stores a probe where the events would go, and deletes it. `undefined`: there is no bucket. Never rejects. */
export async function inspectBackup(config: Config): Promise<BucketReport | undefined> {
  const settings = s3SettingsOf(config);
  if (settings === undefined) return undefined;
  const { bucket } = settings;
  try {
    const left = await probeS3(settings);
    return { bucket, ...(left !== undefined && { left }) };
  } catch (error) {
    return { bucket, problem: (error as Error).message };
  }
}

/** With the group that was asked for. */
export type BrokerReport = AccessReport & { readonly groupName: string | undefined };

const longestMs = 15_000;

/**
 * What the broker of the configuration would let the application do. Writes nothing. Rejects with an `Error` of one line where
 * the broker does not answer, at the latest after `limitMs`.
 */
export async function inspectBroker(
  config: Config,
  logger: Logger,
  limitMs = longestMs,
): Promise<BrokerReport> {
  const { broker, idGenerator } = config;
  const topics = [...new Set([...topicsOf(config), ...(broker.dlqTopic ? [broker.dlqTopic] : [])])];
  const group = isLeasedInKafka(config) ? idGenerator.group : undefined;
  const ending = new AbortController();
  const where = broker.bootstrapServers.join(', ');
  const late = (): never => {
    throw new Error(`no answer from Kafka (${where}) within ${limitMs} ms`);
  };
  try {
    const ask = await openBrokerAccess(broker.client, brokerSettingsOf(config, logger));
    // Connections do not keep the process alive.
    const report = await inTime(ask({ topics, group }, ending.signal), { limitMs, keepsAlive: true, late });
    return { ...report, groupName: group };
  } finally {
    ending.abort();
  }
}

/** Drivers that the application's package.json names, and that svc cannot follow: a line each. */
export function inspectDrivers({ outbox, baseDir }: Config): string[] {
  if (!outbox.enabled) return [];
  const wanted = dialectOf(outbox.datasource.url ?? '');
  const named = nearestManifest(baseDir)?.dependencies ?? [];
  return foreignDrivers
    .filter(({ specifier, dialect }) => dialect === wanted && named.includes(specifier))
    .map(({ specifier }) => `svc.outbox: package.json names ${specifier}; ${foreignText(specifier)}`);
}

/** A folder that a process writes to. */
export interface FolderReport {
  /** As the documentation writes the option. */
  readonly name: string;
  readonly folder: string;
  /** One line. */
  readonly problem?: string;
}

/**
 * Whether this user may write where the configuration has files go: of the backup by the check of the start, which corrects the
 * rights of a folder of svc's own. Makes nothing.
 */
export async function inspectFolders({ broker, idGenerator }: Config): Promise<FolderReport[]> {
  const { backup, dlqBackupPath } = broker;
  const named: readonly (readonly [name: string, folder: string | undefined])[] = [
    ['svc.broker.file.path', clientOf(broker.client).isFiles ? broker.file.path : undefined],
    ['svc.id-generator.lease-path', idGenerator.type === 'snowflake' ? idGenerator.leasePath : undefined],
  ];
  const others = named.flatMap(([name, folder]) =>
    folder === undefined ? [] : reportOf(name, folder, problemOf(folder)),
  );
  if (!backup.localEnabled) return others;
  const problem = await checkBackupFolder(dlqBackupPath);
  return [reportOf('svc.broker.dlq-backup-path', dlqBackupPath, problem), ...others];
}

function reportOf(name: string, folder: string, problem: string | undefined): FolderReport {
  return { name, folder, ...(problem !== undefined && { problem }) };
}

/** One that is not there yet is made in the nearest folder above that is. */
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

/** What the key service says to the keys that the configuration names. */
export interface KeysReport {
  readonly provider: string;
  readonly keys: readonly { readonly id: string /** One line. */; readonly problem?: string }[];
}

/**
 * Asks for each key as an event would, and keeps none. `undefined`: there is no service, or one that only the application has
 * registered. Never rejects.
 */
export async function inspectKeys(config: Config): Promise<KeysReport | undefined> {
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

/** A line where an SDK of OpenTelemetry that the application's package.json names finds a copy of the API that gives svc nothing. */
export function inspectOtel({ baseDir }: Config): string[] {
  const manifest = nearestManifest(baseDir);
  if (manifest === undefined) return [];
  const place = join(manifest.folder, 'package.json');
  const versions = [...manifest.dependencies, ...manifest.devDependencies]
    .filter((name) => /^@opentelemetry\/(?:sdk-|auto-instrumentations-)|^@vercel\/otel$/.test(name))
    .map((name) => apiFoundFrom(fileOf(name, place) ?? place)?.version);
  const lines = versions.map((version) => foreignApi(version)).filter((line) => line !== undefined);
  return [...new Set(lines)];
}

function fileOf(name: string, place: string): string | undefined {
  try {
    return createRequire(place).resolve(name);
  } catch {
    return undefined;
  }
}

/** What a relay finds in the database of the outbox. */
export interface TablesReport {
  readonly dialect: Dialect | null;
  readonly table: string;
  readonly pending?: number;
  /** A statement that keeps rows out which no relay finds, where it is missing. */
  readonly guard?: string | undefined;
  readonly warning?: string;
  /** The address of a database on another machine, if the connection to it is not encrypted. */
  readonly inClearTo?: string | undefined;
  /** Why a relay could not send from it. */
  readonly code?: string;
  readonly problem?: string;
}

/**
 * Whether the tables are there, fit the settings, and the user of the configuration may do what a relay does. Rejects with
 * what is no `SvcError` alone.
 */
export async function inspectOutbox(config: Config): Promise<TablesReport> {
  const { table, datasource } = config.outbox;
  const scene = { dialect: dialectOf(datasource.url ?? '') ?? null, table };
  const settings = { ...config.outbox, dialect: scene.dialect ?? 'postgres' };
  try {
    return await useOutbox(config, consoleLogger('warn'), async (store) => {
      await store.prepare();
      await store.checkRows();
      const senders = await store.senders();
      const refusal = refusalOf(settings, senders);
      if (refusal !== undefined) throw refusal;
      const pending = await store.countPending();
      const guard = await store.missingGuard();
      const warning = remarkOf(settings, senders, false);
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

/** What the registry says to the schemas of the configured targets. */
export interface SchemasReport {
  readonly registry: string;
  readonly schemas: readonly SchemaReport[];
}

interface SchemaReport {
  readonly eventType: string;
  readonly subject?: string;
  /** `registered`: it is there. `compatible`: it would be a new version. `new`: it would be the first. */
  readonly state?: 'registered' | 'compatible' | 'new';
  /** One line. */
  readonly problem?: string;
}

/** Registers nothing. `undefined`: events are no Avro. Never rejects. */
export async function inspectSchemas(config: Config): Promise<SchemasReport | undefined> {
  const { type, subjectNameStrategy, autoRegister, schemaRegistryUrl = '' } = config.serde;
  if (type === 'JSON') return undefined;
  const registry = openRegistry(config);
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

export type { TailRange, TopicRecord };

/**
 * Gives the records of a topic as they come, batch by batch, until the signal or `range.untilMs`. Rejects with one-line errors.
 */
export function tailTopic(
  config: Config,
  logger: Logger,
  range: TailRange,
  signal: AbortSignal,
  onRecords: (records: readonly TopicRecord[]) => Promise<void>,
): Promise<void> {
  return withTail(config, logger, range, async (tail) => {
    for await (const records of tail.read(signal)) await onRecords(records);
  });
}

/** The newest `count` records that `accept` takes, the oldest of them first. Rejects with one-line errors. */
export async function newestOf(
  config: Config,
  logger: Logger,
  { topic, count, accept }: { topic: string; count: number; accept: (record: TopicRecord) => boolean },
  signal: AbortSignal,
): Promise<readonly TopicRecord[]> {
  let newest: TopicRecord[] = [];
  const byTime = (a: TopicRecord, b: TopicRecord): number =>
    a.partition === b.partition ? a.offset - b.offset : a.timestamp - b.timestamp;
  await withTail(config, logger, { topic, fromMs: 0, untilMs: undefined }, async (tail) => {
    while (newest.length < count && tail.partitionsLeft().length > 0 && !signal.aborted) {
      for await (const records of tail.older(Math.min(count, newestAtOnce), signal)) {
        newest.push(...records.filter(accept));
        if (newest.length > 2 * (count + newestAtOnce)) newest = newest.sort(byTime).slice(-count);
      }
    }
  });
  return newest.sort(byTime).slice(-count);
}

/** Of each partition. */
const newestAtOnce = 1_000;

async function withTail(
  config: Config,
  logger: Logger,
  range: TailRange,
  work: (tail: TopicTail) => Promise<void>,
): Promise<void> {
  const { client } = config.broker;
  if (!readsTopics(client))
    throw new SvcError(
      'SVC_PUBLISH_BROKER',
      `svc reads topics from Kafka and from files only. For topics of "${client}", use the tools of that broker`,
    );
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, 60_000);
  const tail = await openTopicTail(client, { ...brokerSettingsOf(config, logger), ...range });
  try {
    await isolate(() => tail.open());
    await work(tail);
  } finally {
    await tail.close();
    clearInterval(hold);
  }
}

/** What a value says: JSON, a CloudEvent as the envelope that it stands for, or Avro of the registry of the configuration. Rejects with one-line errors. */
export function valueReader(config: Config): (record: TopicRecord) => Promise<unknown> {
  let avro: ReturnType<typeof openAvroReader> | undefined;
  return async ({ value, headers, timestamp }) => {
    if (value.length === 0) return null;
    // Confluent's form begins with a byte that no JSON begins with.
    if (value[0] !== 0) {
      return toEnvelope(parsed(value), headers, timestamp);
    }
    if (config.serde.schemaRegistryUrl === undefined)
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its value is Avro: set svc.serde.schema-registry-url');
    avro ??= openAvroReader(registryOptionsOf(config));
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

/** Reasons are kept by their text: whoever writes dead letters may name any number of topics. */
const mostNamed = 100;

/**
 * Why events are not sent to a topic: a dead letter, a file or an object names whichever it likes, and is sent with the rights of
 * whoever runs svc. Only topics of the configuration and those that are named by whoever asks are written to, and never one of dead
 * letters, where it would come back.
 *
 * @param naming how a topic is named: `--topic`, or `"topic":`
 */
export function createTopicRefusal(
  config: Config,
  named: readonly (string | undefined)[],
  deadLetterTopics: readonly (string | undefined)[],
  naming = '--topic',
): (topic: string) => string | undefined {
  const allowed = new Set([...topicsOf(config), ...named]);
  const told = new Set<string>();
  return (topic) => {
    if (deadLetterTopics.includes(topic)) return `topic "${topic}" is the dead letter topic itself`;
    if (allowed.has(topic)) return undefined;
    if (told.size >= mostNamed && !told.has(topic))
      return `more than ${mostNamed} topics that the configuration does not have: the list names them, ${naming} sends one`;
    told.add(topic);
    return `the configuration has no topic "${topic}". If the events belong there, send them with ${naming} ${topic}`;
  };
}

/** Those that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}

interface DecryptionRequest {
  /** `undefined`: none is used. */
  readonly config: Config | undefined;
  /** Keys beside those of the configuration, which they go before where ids are the same. */
  readonly keys: readonly ConfiguredKey[];
  /** As in `PII_ENCRYPTION_KEY`: the key with the id `default`. Part of the configuration where there is one. */
  readonly defaultKey: string | undefined;
  /** Ids to ask a key service for, beside those that the configuration names. */
  readonly keyIds: readonly string[];
}

/** Everything that can open ciphertexts, as one command needs it. Throws what is wrong with the keys. */
export function openDecryption({ config, keys, defaultKey, keyIds }: DecryptionRequest): DecryptionKeys {
  const ofConfig = config === undefined ? ofEnvironment(defaultKey) : configuredKeys(config.pii.crypto);
  const own = new Set(keys.map(({ id }) => id));
  // For reading, no key is the primary one.
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

/** Keys that rules encrypt with, and those that the configuration has names for: marks of classes can use them. */
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

/** Where rules of the configuration encrypt; marks of classes and rules in code it does not know. */
export function encryptedFields({ pii, targets }: Config): readonly string[] {
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  const paths = rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ path }) => path);
  return [...paths, ...paths.map(underValue).filter((path) => typeof parseRulePath(path) !== 'string')];
}

/** A payload that is no object is published as `{ "value": … }`. */
function underValue(path: string): string {
  const bare = path.replace(/^\$(\.|(?=\[))/, '');
  return bare.startsWith('[') ? `value${bare}` : `value.${bare}`;
}

import { accessSync, constants, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { nearestManifest } from '../../ground/files.ts';
import { consoleLogger, type Logger } from '../../observe/logger.ts';
import { apiFoundFrom, foreignApi, isolate } from '../../observe/otel-api.ts';
import { toProviderError } from '../../protect/keys/key-provider.ts';
import type { AccessReport } from '../../publish/broker.ts';
import { subjectOf } from '../../serialize/avro/schema-ids.ts';
import { type Dialect, dialectOf } from '../../transaction/driver.ts';
import { checkBackupFolder, openBrokerAccess, probeS3 } from '../adapters.ts';
import { openProvider } from '../keys.ts';
import { codecsOf, openRegistry } from '../open-avro.ts';
import { refusalOf, remarkOf } from '../outbox/senders.ts';
import { foreignDrivers, foreignText, useOutbox } from '../outbox/use-outbox.ts';
import { brokerSettingsOf, eventTypeOf, isLeasedInKafka, s3SettingsOf } from '../settings.ts';
import { namedKeyIds, topicsOf } from './tail-topic.ts';

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
    ['svc.broker.file.path', broker.client === 'file' ? broker.file.path : undefined],
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
      if (!found?.isDirectory()) return `${at} is no folder`;
      accessSync(at, constants.W_OK | constants.X_OK);
      return undefined;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOTDIR' && dirname(at) !== at) continue;
      return `this user may not write in ${at} (${code})`;
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
      return { ...scene, pending, guard, ...(warning !== undefined && { warning }) };
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
      const problem = `the schema of ${eventType} is not compatible with what subject ${subject} holds: change it, or the compatibility of the subject`;
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

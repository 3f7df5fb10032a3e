import { formatProblem, type Problem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import { clientOf } from '../ground/management.ts';
import { consoleLogger, printable } from '../observe/logger.ts';
import {
  type BrokerReport,
  type BucketReport,
  type FolderReport,
  inspectBackup,
  inspectBroker,
  inspectFolders,
  inspectKeys,
  inspectOutbox,
  inspectSchemas,
  type KeysReport,
  type SchemasReport,
  type TablesReport,
} from '../start/commands/inspect.ts';
import { formatTables } from './outbox.ts';
import { isInTheWay } from './recovery.ts';
import { processesIn, unjoinedOf } from './running.ts';

/** The document of `svc check --online --json`. */
export interface OnlineCheck {
  readonly ok: boolean;
  readonly client: string;
  /** `host:port`, or the folder of topic files. Empty for memory and for brokers that the application has registered. */
  readonly asked: readonly string[];
  /** Why the broker could not be checked. */
  readonly problem?: string;
  readonly cluster?: { readonly id: string | null; readonly brokers: number };
  readonly topics: readonly OnlineTopic[];
  readonly group?: { readonly name: string; readonly mayUse: boolean | null; readonly problem?: string };
  /** Present with `svc.broker.backup.s3-enabled`. */
  readonly backup?: BucketReport;
  /** Present with `svc.serde.type: AVRO`. */
  readonly serde?: SchemasReport;
  /** Present with `svc.outbox.enabled`. */
  readonly outbox?: TablesReport;
  /** Processes started in this folder, with the number of events that each has stored outside a transaction. Without those at 0. */
  readonly unjoined?: readonly { readonly pid: number; readonly count: number }[];
  /** Present with `svc.pii.kms.enabled`. */
  readonly keys?: KeysReport;
  /** Folders that a process writes to. */
  readonly folders?: readonly FolderReport[];
}

interface OnlineTopic {
  readonly topic: string;
  readonly partitions: number | null;
  /** `null`: unknown. */
  readonly mayWrite: boolean | null;
  readonly problem?: string;
}

/** Checks the services of the configuration: broker, backup bucket, schema registry, key service and outbox database. */
export async function checkOnline(config: Config, problems: readonly Problem[]): Promise<OnlineCheck> {
  const { client } = config.broker;
  const scene = { client, asked: clientOf(client).addresses(config.broker) };
  const [wrong] = problems.filter(isInTheWay);
  if (wrong !== undefined)
    return { ok: false, ...scene, problem: `not asked: ${formatProblem(wrong)}`, topics: [] };
  const logger = consoleLogger(config.log.level === 'debug' ? 'debug' : 'warn');
  const [broker, backup, serde, outbox, keys, folders, unjoined] = await Promise.all([
    inspectBroker(config, logger).then(documentOf, notKnown),
    inspectBackup(config),
    inspectSchemas(config),
    tablesOf(config),
    inspectKeys(config),
    inspectFolders(config),
    lookAtProcesses(config),
  ]);
  const areSchemasRight = serde?.schemas.every(({ problem }) => problem === undefined) ?? true;
  const others = [backup, outbox, ...(keys?.keys ?? []), ...folders];
  const ok = broker.ok && areSchemasRight && others.every((each) => each?.problem === undefined);
  return {
    ...scene,
    ...broker,
    ok,
    ...(backup && { backup }),
    ...(serde && { serde }),
    ...(outbox && { outbox }),
    ...(unjoined.length > 0 && { unjoined }),
    ...(keys && { keys }),
    folders,
  };
}

async function lookAtProcesses(config: Config): Promise<{ pid: number; count: number }[]> {
  if (!config.outbox.enabled || config.outbox.onNoTransaction !== 'autocommit') return [];
  const { token, actionToken } = config.management.server;
  const found = processesIn(process.cwd(), token ?? actionToken).map(async (one) => ({
    ...{ pid: one.pid ?? 0, count: await unjoinedOf(one) },
  }));
  return (await Promise.all(found)).filter(({ count }) => count > 0);
}

export function unjoinedText({ pid, count }: { readonly pid: number; readonly count: number }): string {
  return `process ${pid} has stored ${counted(count, 'event')} outside any transaction, not atomically with the writes of the calls (svc_outbox_unjoined_total)`;
}

/** Ignores missing tables that the process creates at its start. */
async function tablesOf(config: Config): Promise<TablesReport | undefined> {
  const { enabled, datasource, initializeSchema } = config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const report = await inspectOutbox(config);
  const makesTables =
    initializeSchema === 'always' || (initializeSchema === 'embedded' && report.dialect === 'sqlite');
  if (report.code !== 'SVC_OUTBOX_TABLE_MISSING' || !makesTables) return report;
  const { dialect, table } = report;
  return { dialect, table, warning: `no table ${table} yet: the process makes it when it starts` };
}

function notKnown({ message }: Error): Pick<OnlineCheck, 'ok' | 'problem' | 'topics'> {
  return { ok: false, problem: message, topics: [] };
}

function documentOf({
  cluster,
  topics,
  group,
  groupName,
}: BrokerReport): Omit<OnlineCheck, 'client' | 'asked'> {
  const all = group === undefined ? topics : [...topics, group];
  return {
    ok: all.every(({ problem }) => problem === undefined),
    ...(cluster && { cluster: { id: cluster.clusterId, brokers: cluster.nodeCount } }),
    topics: topics.map(({ topic, partitionCount, isAllowed, problem }) => ({
      ...{ topic, partitions: partitionCount ?? null, mayWrite: isAllowed ?? null },
      ...(problem !== undefined && { problem }),
    })),
    ...(group !== undefined &&
      groupName !== undefined && {
        group: {
          ...{ name: groupName, mayUse: group.isAllowed ?? null },
          ...(group.problem !== undefined && { problem: group.problem }),
        },
      }),
  };
}

/** One line per checked item. */
export function formatOnline({
  client,
  asked,
  problem,
  cluster,
  topics,
  group,
  backup,
  serde,
  outbox,
  unjoined = [],
  keys,
  folders = [],
}: OnlineCheck): string {
  const lines: string[] = [];
  const where = asked.join(', ');
  if (problem !== undefined) lines.push(`error: broker: ${problem}`);
  else if (clientOf(client).staysInMemory)
    lines.push(`broker: nothing to check, events stay in memory (svc.broker.client: ${client})`);
  else if (asked.length === 0)
    lines.push(`broker: nothing to check, svc does not know what "${client}" can do`);
  else if (clientOf(client).isFiles)
    lines.push(`broker: nothing to check; the topic files in ${where} can be written`);
  else
    lines.push(
      `broker: ${where} answers, cluster ${cluster?.id}, ${counted(cluster?.brokers ?? 0, 'broker')}`,
    );
  for (const each of topics)
    lines.push(
      each.problem === undefined
        ? `  topic ${each.topic}: ${counted(each.partitions ?? 0, 'partition')}, ${rightTo('write', each.mayWrite)}`
        : `  error: ${each.problem}`,
    );
  if (group !== undefined)
    lines.push(
      group.problem === undefined
        ? `  group ${group.name} for worker ids: ${rightTo('use it', group.mayUse)}`
        : `  error: ${group.problem}`,
    );
  if (backup !== undefined) lines.push(bucketLine(backup));
  if (serde !== undefined) lines.push(...schemaLines(serde));
  if (keys !== undefined) lines.push(...keyLines(keys));
  for (const { name, problem: why } of folders) if (why !== undefined) lines.push(`error: ${name}: ${why}`);
  for (const each of unjoined) lines.push(`warning: ${unjoinedText(each)}`);
  const tables = outbox === undefined ? '' : formatTables(outbox);
  return `${lines.map(printable).join('\n')}\n${tables}`;
}

export const stateLines = {
  registered: 'is registered',
  compatible: 'is registered, or would be a compatible version',
  new: 'would be registered at the first event',
} as const;

function schemaLines({ registry, schemas }: SchemasReport): string[] {
  const lines = schemas.map(({ eventType, subject, state, problem }) =>
    state === undefined
      ? `  error: ${problem}`
      : `  schema of ${eventType}, subject ${subject}: ${stateLines[state]}`,
  );
  return [`schema registry: ${registry}`, ...lines];
}

function keyLines({ provider, keys }: KeysReport): string[] {
  const lines = keys.map(({ id, problem }) =>
    problem === undefined ? `  key ${id}: answers` : `  error: key ${id}: ${problem}`,
  );
  return [`keys: ${provider}`, ...lines];
}

function bucketLine({ bucket, left, problem }: BucketReport): string {
  if (problem !== undefined) return `error: backup: ${problem}`;
  const rest = left === undefined ? '' : `; the probe ${left} stays there, because svc may not delete it`;
  return `backup: bucket ${bucket} takes events${rest}`;
}

export function rightTo(what: string, isAllowed: boolean | null): string {
  if (isAllowed === null)
    return `svc could not check whether it may ${what}, because these brokers do not report it`;
  return isAllowed ? `svc may ${what}` : `svc may not ${what}`;
}

export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

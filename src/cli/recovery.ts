import { basename, dirname, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { formatProblem, type Problem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { type LoadedConfig, loadConfig } from '../config/read/load.ts';
import { optionNamed, targetsName } from '../config/schema/schema.ts';
import { parsePast } from '../ground/event-fields.ts';
import { clientOf, usualClient } from '../ground/management.ts';
import { printable, printableJson } from '../observe/logger.ts';
import {
  acceptedBy,
  createTopicRefusal,
  exportBackup,
  type RecoveryPlace,
  type RecoveryResult,
  runRecovery,
  type StoredEvent,
} from '../start/commands/recovery.ts';
import { recoveryGroup } from '../start/settings.ts';
import {
  counted,
  createColumns,
  createProgress,
  does,
  group,
  onStopSignal,
  reportFailure,
  settingsInCode,
  WrongUse,
  warnOnly,
} from './terminal.ts';

type Action = 'list' | 'send';

/** A list marks nothing, so the command need not wait for the current batch. */
const listEndsWithinMs = 500;

function endList(): never {
  process.stderr.write(`svc: ${onRequest}: there may be more\n`);
  process.exit(1);
}

/**
 * Lists or sends. Exit codes: 0 done, 1 some of the requested events are left, 2 usage error.
 *
 * @throws WrongUse
 */
async function runRecoveryCommand(
  options: RecoveryOptions,
  action: Action,
  placeOf: (config: Config) => RecoveryPlace,
): Promise<number> {
  const accept = acceptOf(options);
  const { config, checkBroker } = recoveryConfig(options);
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  const place = placeOf(config);
  warnOnly(config);
  const isSending = action === 'send' && options.dryRun !== true;
  const isListing = action === 'list' || options.dryRun === true;
  if (isSending || place.kind === 'dlq') checkBroker();
  const refusalOf = createTopicRefusal(
    config,
    [...(options.topic ?? []), options.to],
    [config.broker.dlqTopic, place.kind === 'dlq' ? place.topic : undefined],
  );
  const bar = createProgress(process.stderr);
  // A list on the same terminal shows the progress itself.
  const hasBar = isSending || options.json === true || process.stdout.isTTY !== true;
  let isStopped = false;
  const forget = onStopSignal(() => {
    // A second signal ends the process. At most the current batch is then sent again.
    isStopped = true;
    if (isSending) process.stderr.write('\nsvc: stopping after the current batch\n');
    else setTimeout(endList, listEndsWithinMs).unref();
  });
  const listing = isListing
    ? createListing({ isJson: options.json === true, isSorted: place.kind === 'dlq' }, (text) =>
        process.stdout.write(text),
      )
    : undefined;
  try {
    const result = await runRecovery(config, {
      place,
      isSending,
      accept,
      fallbackTopic: options.to,
      refusalOf: action === 'send' ? refusalOf : undefined,
      ratePerSecond: options.rate ?? 0,
      isStopped: () => isStopped,
      onProgress: (report, total) => {
        const { matched, skipped, failed } = report;
        if (hasBar) bar.show(matched + skipped, total, failed > 0 ? `${failed} failed` : undefined);
      },
      onEvent: (event) => listing?.add(event),
    });
    bar.end();
    const events = listing?.end();
    if (options.json) {
      const document = { dryRun: !isSending, ...summaryOf(result), ...(events !== undefined && { events }) };
      process.stdout.write(`${printableJson(document, 2)}\n`);
    } else process.stderr.write(summaryLines(result, isSending));
    const isLeft = result.failed > 0 || result.unreadable.length > 0 || result.isInterrupted;
    return isLeft ? 1 : 0;
  } catch (error) {
    bar.end();
    return reportFailure(error);
  } finally {
    forget();
  }
}

/**
 * The configuration with the brokers of the command line. Works without a file, too.
 *
 * @throws WrongUse
 */
export function recoveryConfig({
  config: file,
  broker,
}: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}) {
  const own = loadConfig({ file });
  const loaded = broker === undefined ? own : loadConfig({ file, code: withBroker(broker, own.config) });
  const wrong = loaded.problems.filter(isInTheWay);
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
  return {
    config: loaded.config,
    /**
     * Refuses the default broker, files: with brokers in the variables of another machine, the events would go to files here.
     *
     * @throws WrongUse
     */
    checkBroker: () => checkBroker(loaded),
  };
}

/** Keeps a configured Kafka client, because the configuration may need its features. */
function withBroker(broker: string, { broker: { client } }: Config): object {
  const kafka = clientOf(client).isKafka ? client : usualClient(true);
  return { svc: { broker: { client: kafka, bootstrapServers: broker.split(',') } } };
}

/**
 * Recovery needs the broker and a readable file. It ignores missing keys, targets and the default topic, since stored events have
 * their topics.
 */
export function isInTheWay({ name }: Problem): boolean {
  if (name === 'svc.broker.topic' || name === targetsName) return false;
  return name.startsWith('svc.broker.') || optionNamed(name) === undefined;
}

function checkBroker({ config, isGiven }: LoadedConfig): void {
  const { client } = config.broker;
  const { staysInMemory, isFiles } = clientOf(client);
  if (staysInMemory) throw new WrongUse(`svc.broker.client: ${client} reaches no broker; ${howTo}`);
  if (isFiles && !isGiven('svc.broker.client')) throw new WrongUse(`no broker: ${howTo}`);
}

const howTo = `give --broker <host:port,...>, or set svc.broker.bootstrap-servers (svc.broker.client: file for topic files). ${settingsInCode}`;

interface RecoveryOptions {
  readonly config?: string;
  readonly broker?: string;
  readonly type?: readonly string[];
  /** Only events for these topics. */
  readonly topic?: readonly string[];
  readonly since?: number;
  readonly until?: number;
  readonly to?: string;
  /** Events a second; default: no limit. */
  readonly rate?: number;
  readonly dryRun?: true;
  readonly json?: true;
  readonly dlqTopic?: string;
  readonly group?: string;
  readonly dir?: string;
  readonly file?: string;
  readonly s3?: true;
}

function withFilters(command: Command): Command {
  return command
    .option('--type <event type>', 'only these; repeatable', repeated)
    .option('--topic <topic>', 'only events meant for this topic; repeatable', repeated)
    .option('--since <time>', sinceText, timeOf('since'))
    .option('--until <time>', 'only events stored before', timeOf('until'));
}

/** The options of `svc dlq` and `svc backup`. */
function withRecoveryOptions(command: Command): Command {
  return withFilters(command)
    .option('--to <topic>', 'topic of events whose own topic is unknown')
    .option('--rate <number>', 'events a second (default: as fast as the broker takes them)', rateOf)
    .option('--dry-run', 'list the events, and send nothing')
    .option(...brokerOption);
}

export const brokerOption = ['--broker <host:port,...>', 'instead of svc.broker.bootstrap-servers'] as const;

export const sinceText = 'only events stored since: 2026-03-04T10:00:00Z, or 90m (90 minutes ago)';

/** @throws WrongUse */
function acceptOf(options: RecoveryOptions): (event: StoredEvent) => boolean {
  const { since, until } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  return acceptedBy({ types: options.type, topics: options.topic, since, until });
}

/** For a repeatable option. */
export const repeated = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  text,
];

/** For an option with a time, or `90m`: that long ago. */
export function timeOf(name: string): (text: string) => number {
  return (text) => {
    const time = parsePast(text, Date.now());
    if (name === 'since' && time !== undefined && time > Date.now())
      throw new WrongUse('--since is in the future, so nothing matches');
    if (time !== undefined) return time;
    throw new WrongUse(
      `--${name} takes a time such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d`,
    );
  };
}

function rateOf(text: string): number {
  const rate = Number(text);
  if (!Number.isInteger(rate) || rate < 1)
    throw new WrongUse('--rate takes events a second, an integer from 1');
  return rate;
}

/** An event in a list, without its content, in the order of the columns. */
function listed({ place, eventId, eventType, topic, storedAt, reason }: StoredEvent): object {
  const time = storedAt === 0 ? null : new Date(storedAt).toISOString();
  return { storedAt: time, eventId, eventType, topic: topic ?? null, reason: reason ?? null, place };
}

function listColumns({ place, eventId, eventType, topic, storedAt, reason }: StoredEvent): readonly string[] {
  const time = storedAt === 0 ? '-' : new Date(storedAt).toISOString();
  return [time, eventId, eventType || '-', topic ?? '-', reason ?? '-', place];
}

const listHead = ['STORED', 'EVENT', 'TYPE', 'TOPIC', 'REASON', 'PLACE'];

export const onRequest = 'stopped on request';

export function summaryOf(result: RecoveryResult): object {
  const { source, matched, skipped, sent, failed, unreadable, problems, stoppedBy, isInterrupted } = result;
  return {
    source,
    matched,
    skipped,
    sent,
    failed,
    unreadable,
    problems: [...problems].map(([reason, events]) => ({ reason, events })),
    stopped: stoppedBy?.message ?? (isInterrupted ? onRequest : null),
  };
}

export function summaryLines(result: RecoveryResult, isSending: boolean): string {
  const { source, matched, skipped, sent, failed, unreadable, problems, stoppedBy, isInterrupted } = result;
  const filtered = skipped > 0 ? `, ${skipped} left out by the filters` : '';
  const lines = [
    isSending
      ? `${source}: ${sent} of ${matched} events sent to their topics${filtered}`
      : `${source}: ${counted(matched)}${filtered}`,
  ];
  for (const [reason, events] of problems) lines.push(`not sent: ${counted(events)}: ${reason}`);
  for (const { place, reason } of unreadable) lines.push(`not readable: ${place}: ${reason}`);
  if (stoppedBy !== undefined)
    lines.push('stopped: the broker is unreachable. Run the command again to go on from here');
  else if (isInterrupted)
    lines.push(
      isSending
        ? `${onRequest}. Run the command again to go on from here`
        : `${onRequest}: there may be more`,
    );
  else if (failed > 0) lines.push('unsent events are still there');
  return `${lines.map(printable).join('\n')}\n`;
}

/** `svc dlq list|recover`: lists dead letters, or sends them to their original topics. */
function runDlq(options: RecoveryOptions, action: Action): Promise<number> {
  return runRecoveryCommand(options, action, ({ broker }) => {
    const topic = options.dlqTopic ?? broker.dlqTopic;
    if (topic === undefined)
      throw new WrongUse('no dead letter topic: set svc.broker.dlq-topic, or give --dlq-topic');
    return { kind: 'dlq', topic, group: options.group ?? recoveryGroup };
  });
}

/** `svc backup list|restore`: lists events in backup files or S3, or sends them to their topics. */
function runBackup(options: RecoveryOptions, action: Action): Promise<number> {
  return runRecoveryCommand(options, action, (config) =>
    options.s3 ? s3Place(options, config) : localPlace(options, config, action === 'list'),
  );
}

function s3Place({ dir, file }: RecoveryOptions, { broker }: Config): RecoveryPlace {
  if (dir !== undefined || file !== undefined)
    throw new WrongUse('--s3 is for the bucket, --dir and --file are for local files: use one of them');
  if (broker.backup.s3Bucket === undefined) throw new WrongUse('no bucket: set svc.broker.backup.s3-bucket');
  return { kind: 's3' };
}

function localPlace(
  { dir, file }: RecoveryOptions,
  { broker }: Config,
  isList: boolean,
): Extract<RecoveryPlace, { kind: 'local' }> {
  if (file === undefined) {
    const directory = dir === undefined ? broker.dlqBackupPath : resolve(dir);
    return { kind: 'local', directory, file, withAside: isList };
  }
  // A bare name is a file in the backup folder. Everything else is a path.
  const isName = basename(file) === file;
  const folder = isName ? (dir ?? broker.dlqBackupPath) : dirname(resolve(file));
  return { kind: 'local', directory: resolve(folder), file: basename(file), withAside: false };
}

/** Limit of sorted rows. Beyond it, each chunk of this size is sorted separately. */
const maxSorted = 100_000;

interface Listing {
  add(event: StoredEvent): void;
  /** Writes the held events. Returns the events of the JSON document. */
  end(): readonly object[];
}

/** @param isSorted sorts by storage time, because a topic is read partition by partition */
export function createListing(
  options: { readonly isJson: boolean; readonly isSorted: boolean },
  write: (text: string) => unknown,
): Listing {
  const { isJson, isSorted } = options;
  const documents: object[] = [];
  const table = createColumns(listHead, write);
  let held: StoredEvent[] = [];

  function flush(): void {
    // The sort is stable.
    if (isSorted) held.sort((a, b) => a.storedAt - b.storedAt);
    for (const event of held) {
      if (isJson) documents.push(listed(event));
      else table.add(listColumns(event));
    }
    held = [];
  }

  return {
    add(event) {
      held.push(event);
      if (!isSorted || held.length >= maxSorted) flush();
    },
    end() {
      flush();
      if (!isJson) table.end();
      return documents;
    },
  };
}

interface ExportOptions extends RecoveryOptions {
  readonly out: string;
  readonly format: 'event' | 'record';
}

/**
 * `svc backup export`: copies the events of the local backup to files, one per event. The backup stays as it is.
 * Exit codes: 0 all exported, 1 some are missing, 2 usage error.
 *
 * @throws WrongUse
 */
async function runExport(options: ExportOptions): Promise<number> {
  const accept = acceptOf(options);
  const { config } = recoveryConfig(options);
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  const { directory, file } = localPlace(options, config, false);
  const out = resolve(options.out);
  const bar = createProgress(process.stderr);
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
  });
  try {
    const report = await exportBackup({
      ...{ directory, file, out, format: options.format, accept },
      isStopped: () => isStopped,
      onProgress: ({ exported, skipped }, total) => bar.show(exported + skipped, total),
    });
    bar.end();
    if (options.json) process.stdout.write(`${printableJson(exportSummary(report, out), 2)}\n`);
    else process.stderr.write(linesOf(report, out));
    return report.isInterrupted || report.unreadable.length > 0 ? 1 : 0;
  } catch (error) {
    bar.end();
    return reportFailure(error);
  } finally {
    forget();
  }
}

type ExportReport = Awaited<ReturnType<typeof exportBackup>>;

function exportSummary({ exported, skipped, unreadable, isInterrupted }: ExportReport, out: string): object {
  return { folder: out, exported, skipped, unreadable, stopped: isInterrupted ? onRequest : null };
}

function linesOf({ exported, skipped, unreadable, isInterrupted }: ExportReport, out: string): string {
  const filtered = skipped > 0 ? `, ${skipped} left out by the filters` : '';
  const lines = [`${counted(exported)} in ${out}${filtered}`];
  for (const { place, reason } of unreadable) lines.push(`not exported: ${place}: ${reason}`);
  if (isInterrupted) lines.push(`${onRequest}: there are more`);
  return `${lines.map(printable).join('\n')}\n`;
}

export function addRecovery(svc: Command): void {
  const toTopics = 'send them to their topics';
  const dlq = group(svc, 'dlq').description('dead letters: list, recover');
  for (const [action, text] of [
    ['list', 'list the events in the dead letter topic'],
    ['recover', toTopics],
  ] as const) {
    const command = withRecoveryOptions(dlq.command(action).description(text))
      .option('--dlq-topic <topic>', 'instead of svc.broker.dlq-topic')
      .option('--group <name>', 'consumer group that keeps the progress (default: svc-dlq-recovery)');
    does(command, (options) => runDlq(options, action === 'list' ? 'list' : 'send'));
  }
  const backup = group(svc, 'backup').description(
    'events in the backup, local or in S3: list, restore, export',
  );
  for (const [action, text] of [
    ['list', 'list the events in the local backup; with --s3, in the bucket'],
    ['restore', toTopics],
  ] as const) {
    const command = withRecoveryOptions(backup.command(action).description(text))
      .option('--dir <folder>', 'instead of svc.broker.dlq-backup-path')
      .option('--file <file>', 'this file alone')
      .option('--s3', 'the bucket of svc.broker.backup.s3-bucket');
    does(command, (options) => runBackup(options, action === 'list' ? 'list' : 'send'));
  }
  const toFiles = withFilters(
    backup.command('export').description('copy the events of the local backup to files, one file each'),
  )
    .requiredOption('--out <folder>', 'target: a new or empty folder')
    .addOption(
      new Option('--format <form>', 'the event itself (<eventId>.json), or with reason and time')
        .choices(['event', 'record'])
        .default('event'),
    )
    .option('--dir <folder>', 'instead of svc.broker.dlq-backup-path')
    .option('--file <file>', 'this file alone');
  does<ExportOptions>(toFiles, runExport);
}

import cluster from 'node:cluster';
import { randomUUID } from 'node:crypto';
import type { Config } from '../config/config.ts';
import { isLoopback } from '../ground/addresses.ts';
import { ownStamp } from '../ground/claims.ts';
import { inTime, within } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { writeProcessFile } from '../ground/files.ts';
import { clientOf, endpointIds, usualPorts } from '../ground/management.ts';
import type {
  Controls,
  DeadLetterAsk,
  DeadLettersOfTopic,
  Info,
  RecoveryAsk,
  RecoveryControls,
  RecoveryRun,
} from '../manage/controls.ts';
import { type ManagementServer, startManagementServer } from '../manage/server.ts';
import { createViews, type ViewParts } from '../manage/views.ts';
import { logger, printable } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import { tellThreads } from '../observe/thread-counts.ts';
import type { ManagedOutbox } from '../outbox/outbox-health.ts';
import type { Broker } from '../publish/broker.ts';
import type { ClusterState } from '../publish/main/cluster-state.ts';
import type { RecoverReport } from '../publish/recovery/recover.ts';
import { type DeadLetterHead, headOfDlqRecord } from '../publish/tiers/dlq-message.ts';
import type { TopicRecord, TopicTail } from '../publish/topic-reader.ts';
import { openTopicTail, readsTopics } from './adapters.ts';
import type { RecoveryPlace, RecoveryResult } from './commands/recovery.ts';
import { recoveryGroup } from './settings.ts';

export interface Managed extends ViewParts {
  readonly broker: Broker;
  readonly invalidateKeys: () => Promise<void>;
  readonly outbox: ManagedOutbox | undefined;
  readonly breakers: ManagedBreakers;
  /** Makes the open files of the local backup readable for others. `undefined`: only this process empties its backup. */
  readonly finishBackup?: (() => Promise<void>) | undefined;
}

interface RunningManagement extends ManagementServer {
  isRunning(): boolean;
  /** Ends recoveries after the current batch. New ones are refused. */
  stopRuns(deadlineMs: number): Promise<void>;
}

/** The circuit breakers of this process. */
interface ManagedBreakers {
  readonly broker?: ResettableBreaker;
  readonly outbox?: () => ResettableBreaker | undefined;
}

type ResettableBreaker = Pick<ClusterState, 'state' | 'reset'>;

/** How long an invalidation waits for new keys. */
const keysMs = 5_000;
/** Each process of a cluster takes one port. */
const clusterTries = 100;

/** Processes of one program with the same port: `node:cluster`, both primary and workers, and pm2. */
function isOneOfSeveral(): boolean {
  return cluster.isWorker || Object.keys(cluster.workers ?? {}).length > 0 || process.env.pm_id !== undefined;
}

function portsOf(named: number | undefined) {
  const port = named ?? usualPorts.first;
  if (isOneOfSeveral())
    return { port, portTries: Math.min(clusterTries, 65_536 - port), isOneOfSeveral: true };
  return { port, portTries: named === undefined ? usualPorts.count : 1 };
}

/** Starts the management server and logs its address. `undefined`: it cannot listen. */
export async function startManagement(
  config: Config,
  managed: Managed,
): Promise<RunningManagement | undefined> {
  const { server, endpoints, endpoint, actions } = config.management;
  const exposure =
    endpoints.web.exposure.include ??
    endpointIds.filter((id) => id !== 'svc-console' || isLoopback(server.address));
  const deadLetterRecovery = createRecoveryRuns({
    ...{ config, name: 'dead letters', placeOf: () => deadLetterPlace(config) },
  });
  const backupDrain = createRecoveryRuns({
    ...{ config, name: 'backup', placeOf: (ask) => backupPlace(config, ask) },
    ...(managed.finishBackup && { prepare: managed.finishBackup }),
  });
  const { topic, dlqTopic = null } = config.broker;
  const views = createViews(managed, { topic, dlqTopic }, { deadLetterRecovery, backupDrain });
  const started = await startManagementServer(
    {
      ...server,
      ...portsOf(server.port),
      exposure,
      excludedActions: actions.exclude,
      ...endpoint.health,
    },
    {
      ...views,
      deadLetterTopic: deadLetterTopicOf(config),
      resetBreakers(by) {
        tellThreads('resetBreakers');
        const { broker, outbox } = managed.breakers;
        const done = { broker: reset(broker), outbox: reset(outbox?.()) };
        const before = Object.entries(done).map(
          ([name, breaker]) => `${name} was ${breaker?.before ?? 'none'}`,
        );
        logger.info(`Circuit breakers are reset by ${by}: ${before.join(', ')}`);
        return done;
      },
      async invalidateKeys(by) {
        tellThreads('invalidateKeys');
        const late = (): void => {};
        await inTime(managed.invalidateKeys(), { limitMs: keysMs, keepsAlive: false, late });
        const keys = managed.keys();
        const states = keys.map(({ keyId, status }) => `${printable(keyId)} is ${status}`);
        logger.info(`Encryption keys are invalidated by ${by}: ${states.join(', ') || 'there are none'}`);
        return { keys };
      },
      ...{ outbox: managed.outbox, deadLetterRecovery, backupDrain },
    },
  );
  if (started === undefined) return void views.close();
  logger.info(`management on http://${hostOf(started)}/metrics`);
  const takeBack = nameProcess(started, managed.info);
  const stopRuns = async (deadlineMs: number): Promise<void> =>
    void (await Promise.all([deadLetterRecovery.stop(deadlineMs), backupDrain.stop(deadlineMs)]));
  return {
    ...{ ...started, stopRuns },
    isRunning: () => deadLetterRecovery.isRunning() || backupDrain.isRunning(),
    close() {
      takeBack();
      views.close();
      return started.close();
    },
  };
}

/**
 * Registers the process for other programs of the same user. Returns a function that removes the entry; the exit of the process does so
 * too.
 */
function nameProcess({ address, port }: ManagementServer, info: Info): () => void {
  try {
    const { name } = info.service;
    const remove = writeProcessFile({
      ...{ pid: process.pid, stamp: ownStamp(), port, address, tls: false, name },
      ...{ version: info.svc.version, cwd: process.cwd() },
    });
    process.once('exit', remove);
    return () => {
      process.removeListener('exit', remove);
      remove();
    };
  } catch (error) {
    // The server runs without the entry.
    const { code, message } = error as SvcError;
    logger.info(`svc status cannot find this process: ${message}`, { code });
    return () => {};
  }
}

function hostOf({ address, port }: ManagementServer): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}

function reset(breaker: ResettableBreaker | undefined) {
  if (breaker === undefined) return null;
  const before = breaker.state;
  breaker.reset();
  return { before, after: breaker.state };
}

interface RecoveryRunsOptions {
  readonly config: Config;
  /** For log lines: `dead letters`, `backup`. */
  readonly name: string;
  /** The source of the recovery, or one line on why recovery is impossible. */
  readonly placeOf: (ask: Pick<RecoveryAsk, 'from'>) => RecoveryPlace | string;
  /** Makes this process's open files readable. */
  readonly prepare?: () => Promise<void>;
}

interface RecoveryRuns extends RecoveryControls {
  isRunning(): boolean;
  /** Ends each run after its current batch. The next run continues from there. */
  stop(deadlineMs: number): Promise<void>;
}

/** Recoveries within an application. They do not keep the process alive. */
function createRecoveryRuns(options: RecoveryRunsOptions): RecoveryRuns {
  const { config, name } = options;
  const latest: { run: RecoveryRun | null; dryRun: RecoveryRun | null } = { run: null, dryRun: null };
  const inFlight = new Set<Promise<void>>();
  /** A counter, because a process may go on after `stop`. */
  let stops = 0;

  async function work(place: RecoveryPlace, ask: RecoveryAsk, keep: (now: Partial<RecoveryRun>) => void) {
    const stopsBefore = stops;
    const { runRecovery, acceptedBy, createTopicRefusal } = await import('./commands/recovery.ts');
    const { types, topics, since, until, to, limit, rate = 0, dryRun } = ask;
    const deadLetters = [config.broker.dlqTopic];
    if (place.kind === 'local' && !dryRun) await options.prepare?.();
    return runRecovery(config, {
      ...{ place, isSending: !dryRun, keepsAlive: false, fallbackTopic: to, ratePerSecond: rate, limit },
      accept: acceptedBy({ types, topics, since, until }),
      refusalOf: createTopicRefusal(config, [...(topics ?? []), to], deadLetters, '"topic":'),
      isStopped: () => stops > stopsBefore,
      onProgress: (report, total) => keep({ ...reportCounts(report), total: total ?? null }),
    });
  }

  return {
    latest: () => latest,
    missing(ask) {
      const place = options.placeOf(ask);
      return typeof place === 'string' ? place : undefined;
    },
    start(ask, by) {
      const slot = ask.dryRun ? 'dryRun' : 'run';
      const place = options.placeOf(ask);
      if (latest[slot]?.state === 'RUNNING' || typeof place === 'string') return undefined;
      const begun = newRun(ask.dryRun);
      const keep = (now: Partial<RecoveryRun>): void => {
        latest[slot] = { ...(latest[slot] ?? begun), ...now };
      };
      latest[slot] = begun;
      const what = `${name}: ${ask.dryRun ? 'dry run' : 'recovery'} ${begun.id}, requested by ${by}`;
      logger.info(`${what}, has begun`);
      const ending = work(place, ask, keep)
        .then(endOf, (error: unknown) => ({ state: 'FAILED' as const, error: lineOf(error) }))
        .then((end) => {
          keep({ ...end, endedAt: new Date().toISOString() });
          inFlight.delete(ending);
          const { state, matched, sent, failed, error } = latest[slot] ?? begun;
          const why = error === null ? '' : `: ${error}`;
          const counts = ask.dryRun ? `${matched} events match` : `${sent} of ${matched} events sent`;
          const line = `${what}: ${state}, ${counts}, ${failed} failed${why}`;
          logger[state === 'DONE' || state === 'LIMIT' ? 'info' : 'warn'](printable(line));
        });
      inFlight.add(ending);
      return begun;
    },
    isRunning: () => inFlight.size > 0,
    async stop(deadlineMs) {
      stops++;
      if (inFlight.size > 0) await within(deadlineMs, Promise.all(inFlight));
    },
  };
}

function newRun(dryRun: boolean): RecoveryRun {
  return {
    ...{ id: randomUUID(), state: 'RUNNING', dryRun, startedAt: new Date().toISOString(), endedAt: null },
    ...{ total: null, matched: 0, skipped: 0, sent: 0, failed: 0, unreadable: 0, problems: [], error: null },
  };
}

function reportCounts(report: RecoverReport): Partial<RecoveryRun> {
  const { matched, skipped, sent, failed, unreadable, problems } = report;
  return {
    ...{ matched, skipped, sent, failed, unreadable: unreadable.length },
    problems: [...problems].map(([reason, events]) => ({ reason: printable(reason), events })),
  };
}

function endOf(result: RecoveryResult): Partial<RecoveryRun> {
  const counts = reportCounts(result);
  const { stoppedBy, isInterrupted, isAtLimit } = result;
  if (stoppedBy !== undefined)
    return { ...counts, state: 'STOPPED', error: `the broker is away: ${printable(stoppedBy.message)}` };
  if (isInterrupted) return { ...counts, state: 'STOPPED', error: 'the process was shutting down' };
  return { ...counts, state: isAtLimit ? 'LIMIT' : 'DONE' };
}

function lineOf(error: unknown): string {
  if (error instanceof SvcError) return printable(error.message);
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}

/** The dead letter topic, or why it cannot be recovered. */
function deadLetterPlace(config: Config): RecoveryPlace | string {
  const { client, dlqTopic } = config.broker;
  if (dlqTopic === undefined)
    return 'There is no dead letter topic in this application: set svc.broker.dlq-topic.';
  if (!readsTopics(client))
    return `svc reads dead letters from Kafka and from files only. For those of "${client}", use the tools of that broker.`;
  return { kind: 'dlq', topic: dlqTopic, group: recoveryGroup };
}

/** The dead letter topic for queries. */
function deadLetterTopicOf(config: Config): Controls['deadLetterTopic'] {
  const place = deadLetterPlace(config);
  const { dlqTopic: topic = '' } = config.broker;
  return {
    missing: () => (typeof place === 'string' ? place : undefined),
    ...createNewestDeadLetters(topic, (fromMs) =>
      openTopicTail(config, { topic, fromMs, untilMs: undefined }),
    ),
  };
}

/** The source of the backup, or one line on why recovery is impossible. */
function backupPlace({ broker }: Config, { from }: Pick<RecoveryAsk, 'from'>): RecoveryPlace | string {
  const { backup, client } = broker;
  if (clientOf(client).staysInMemory) return `svc.broker.client: ${client} reaches no broker.`;
  const place = from ?? (backup.localEnabled || backup.s3Bucket === undefined ? 'local' : 's3');
  if (place === 'local')
    return { kind: 'local', directory: broker.dlqBackupPath, file: undefined, withAside: false };
  return backup.s3Bucket === undefined
    ? 'There is no bucket in this application: set svc.broker.backup.s3-bucket.'
    : { kind: 's3' };
}

/** Longest wait of a caller. Then it gets what was found, or an error if the broker has not answered. */
const answerMs = 5_000;

/** Most records read for one question, to spare the application. `svc dlq list` has no limit. */
const maxRead = 20_000;

/** Queries the newest dead letters of a topic, from its end. One question at a time; others get `undefined`. */
export function createNewestDeadLetters(
  topic: string,
  openTail: (sinceMs: number) => Promise<TopicTail>,
  limits = { answerMs, maxRead },
): Pick<Controls['deadLetterTopic'], 'newest'> {
  let isAsked = false;

  async function look(ask: DeadLetterAsk, found: Found, signal: AbortSignal): Promise<void> {
    const tail = await openTail(ask.since ?? 0);
    try {
      await tail.open();
      let count = ask.limit;
      while (!signal.aborted && found.read < limits.maxRead && !found.isEnough(tail.partitionsLeft())) {
        for await (const records of tail.older(count, signal)) found.add(records);
        count *= 2;
      }
      found.isComplete = !signal.aborted && tail.partitionsLeft().length === 0;
    } finally {
      await tail.close();
    }
  }

  return {
    newest(ask) {
      if (isAsked) return undefined;
      isAsked = true;
      const stopping = new AbortController();
      const found = collect(ask);
      const looked = isolate(() => look(ask, found, stopping.signal));
      const over = (): void => {
        isAsked = false;
      };
      looked.then(over, over);
      const late = (): void => {
        stopping.abort();
        if (found.read === 0)
          throw new SvcError(
            'SVC_ADAPTERS_NOT_REACHABLE',
            `topic "${topic}" could not be read within ${limits.answerMs / 1_000} s`,
          );
      };
      const answered = inTime(looked, { limitMs: limits.answerMs, keepsAlive: false, late });
      return answered.then(() => found.result(topic));
    },
  };
}

type Row = DeadLettersOfTopic['deadLetters'][number] & { readonly atMs: number };

type Found = ReturnType<typeof collect>;

/** Collects matching rows up to the limit. Records do not stay in memory. */
function collect({ types, reasons, topics, since, until, limit }: DeadLetterAsk) {
  let rows: Row[] = [];
  /** Partition -> time of the oldest record read. */
  const oldest = new Map<number, number>();
  const isWanted = ({ eventType, topic, storedAt }: DeadLetterHead, reason: string | null): boolean =>
    (types === undefined || types.includes(eventType)) &&
    (reasons === undefined || (reason !== null && reasons.includes(reason))) &&
    (topics === undefined || (topic !== undefined && topics.includes(topic))) &&
    (since === undefined || storedAt >= since) &&
    (until === undefined || storedAt < until);
  return {
    read: 0,
    unreadable: 0,
    matched: 0,
    isComplete: false,
    add(records: readonly TopicRecord[]): void {
      for (const record of records) {
        const { partition, offset, timestamp } = record;
        this.read++;
        oldest.set(partition, Math.min(timestamp, oldest.get(partition) ?? timestamp));
        const head = headOfDlqRecord(record);
        if (typeof head === 'string') {
          this.unreadable++;
          continue;
        }
        const reason = className(head.reason);
        if (!isWanted(head, reason)) continue;
        this.matched++;
        rows.push(rowOf(head, reason, partition, offset));
      }
      if (rows.length > 2 * limit) rows = newestOf(rows, limit);
    },
    /** Records still unread are older than the rows. */
    isEnough(left: readonly number[]): boolean {
      if (left.length === 0) return true;
      rows = newestOf(rows, limit);
      const last = rows[limit - 1];
      return last !== undefined && left.every((partition) => (oldest.get(partition) ?? 0) <= last.atMs);
    },
    result(topic: string): DeadLettersOfTopic {
      const deadLetters = newestOf(rows, limit).map(({ atMs: _, ...row }) => row);
      const { read, unreadable, matched, isComplete } = this;
      return { topic, deadLetters, read, unreadable, complete: isComplete && matched <= limit };
    },
  };
}

function newestOf(rows: readonly Row[], limit: number): Row[] {
  return [...rows].sort((one, other) => other.atMs - one.atMs || other.offset - one.offset).slice(0, limit);
}

function rowOf(
  { eventId, eventType, topic, storedAt }: DeadLetterHead,
  failureReason: string | null,
  partition: number,
  offset: number,
): Row {
  return {
    ...{ eventId: shown(eventId), eventType: eventType === '' ? null : shown(eventType), failureReason },
    originalTopic: topic === undefined ? null : shown(topic),
    ...{ timestamp: new Date(storedAt).toISOString(), partition, offset, atMs: storedAt },
  };
}

const maxCharacters = 200;

const shown = (text: string): string => printable(text).slice(0, maxCharacters);

/** The class name of `TimeoutException: late`, written by others. The rest may contain anything. */
function className(reason: string | undefined): string | null {
  const [, name] = /^([\w.$-]{1,200})(:|$)/.exec(reason ?? '') ?? [];
  return name ?? null;
}

import cluster from 'node:cluster';
import type { Config } from '../config/config.ts';
import { environmentName } from '../context/source.ts';
import { isLoopback } from '../ground/addresses.ts';
import { ownStamp } from '../ground/claims.ts';
import { inTime, systemClock } from '../ground/clock.ts';
import type { SvcError } from '../ground/errors.ts';
import { writeProcessFile } from '../ground/files.ts';
import { endpointIds, usualPorts } from '../ground/management.ts';
import { askSlowly, createTrends, levelsOf, totalsByType } from '../manage/console.ts';
import {
  type BreakerReset,
  type Controls,
  countsOf,
  flatMetricsReport,
  type Info,
  type KeyHealth,
  metricsReport,
  type Recent,
  type ReportParts,
  recentDlqOf,
  throttleFinding,
  watchRecent,
} from '../manage/controls.ts';
import { cacheHealth } from '../manage/health-cache.ts';
import { type ManagementOptions, type ManagementServer, startManagementServer } from '../manage/server.ts';
import { type Logger, printable } from '../observe/logger.ts';
import type { MetricSources } from '../observe/metrics.ts';
import { isolate } from '../observe/otel-api.ts';
import { tellThreads } from '../observe/thread-counts.ts';
import type { Broker } from '../publish/broker.ts';
import type { Breaker } from '../publish/main/breaker.ts';
import {
  backupPlace,
  createRecoveryRuns,
  deadLetterPlace,
  deadLetterTopicOf,
} from './commands/recovery-runs.ts';
import type { ManagedOutbox } from './outbox/outbox-health.ts';

export interface Managed {
  readonly broker: Broker;
  /** The broker has been asked since `sinceMs` and does not answer. */
  readonly onAway: (message: string, sinceMs: number) => void;
  /** Why events are lost or refused; one line. */
  readonly problem: () => string | undefined;
  /** A warning that does not make health DOWN; one line. */
  readonly remark?: () => string | undefined;
  /** All events are refused at present. */
  readonly refusesAll?: () => boolean;
  readonly keys: () => readonly KeyHealth[];
  readonly invalidateKeys: () => Promise<void>;
  readonly sources: MetricSources;
  readonly info: Info;
  readonly outbox: ManagedOutbox | undefined;
  readonly breakers: ManagedBreakers;
  /** Makes the open files of the local backup readable for others. `undefined`: only this process empties its backup. */
  readonly finishBackup?: (() => Promise<void>) | undefined;
}

export interface RunningManagement extends ManagementServer {
  isRunning(): boolean;
  /** Ends recoveries after the current batch. New ones are refused. */
  stopRuns(deadlineMs: number): Promise<void>;
}

/** The circuit breakers of this process. */
export interface ManagedBreakers {
  readonly broker?: ResettableBreaker;
  readonly outbox?: () => ResettableBreaker | undefined;
}

export type ResettableBreaker = Pick<Breaker, 'state' | 'reset'>;

/** How long an invalidation waits for new keys. */
const keysMs = 5_000;
/** Open pages share one answer for this long. Each page asks every two seconds. */
const pageFreshMs = 900;
/** Each process of a cluster takes one port. */
const clusterTries = 100;

/** Processes of one program with the same port: `node:cluster`, both primary and workers, and pm2. */
function isOneOfSeveral(): boolean {
  return cluster.isWorker || Object.keys(cluster.workers ?? {}).length > 0 || process.env.pm_id !== undefined;
}

function portsOf(
  named: number | undefined,
): Pick<ManagementOptions, 'port' | 'portTries' | 'isOneOfSeveral'> {
  const port = named ?? usualPorts.first;
  if (isOneOfSeveral())
    return { port, portTries: Math.min(clusterTries, 65_536 - port), isOneOfSeveral: true };
  return { port, portTries: named === undefined ? usualPorts.count : 1 };
}

/** Starts the management server and logs its address. `undefined`: it cannot listen. */
export async function startManagement(
  config: Config,
  logger: Logger,
  managed: Managed,
): Promise<RunningManagement | undefined> {
  const { server, endpoints, endpoint, actions } = config.management;
  const exposure =
    endpoints.web.exposure.include ??
    endpointIds.filter((id) => id !== 'svc-console' || isLoopback(server.address));
  const deadLetterRecovery = createRecoveryRuns({
    ...{ config, logger, name: 'dead letters', placeOf: () => deadLetterPlace(config) },
  });
  const backupDrain = createRecoveryRuns({
    ...{ config, logger, name: 'backup', placeOf: (ask) => backupPlace(config, ask) },
    ...(managed.finishBackup && { prepare: managed.finishBackup }),
  });
  const { sources } = managed;
  const trends = createTrends(() => totalsByType(sources));
  const recent = watchRecent(
    () => ({ ...countsOf(sources), ...levelsOf(sources, systemClock.now()) }),
    systemClock,
    {
      onStep: trends.step,
      totals: () => countsOf(sources),
      findings: () => throttleFinding(managed.broker.heldBack?.(), systemClock),
    },
  );
  const health = healthOf(config, managed, recent);
  let shown: { readonly facts: object; readonly untilMs: number } | undefined;
  const healthOfPage = askSlowly(health, recent, systemClock, () => ({
    targets: sources.captureTargets(),
    backupProblem: sources.backup().problem,
  }));
  const started = await startManagementServer(
    {
      ...server,
      ...portsOf(server.port),
      exposure,
      excludedActions: actions.exclude,
      ...endpoint.health,
    },
    {
      health,
      isReady: async () =>
        managed.outbox?.isReady() !== false &&
        managed.refusesAll?.() !== true &&
        (await managed.outbox?.standsStill()) !== true,
      metricsText: () => metricsText(managed),
      metricsReport: async () => metricsReport(await reportParts(managed)),
      flatMetricsReport: async () => flatMetricsReport(await reportParts(managed)),
      console: async (afterMs) => {
        const { consoleFacts, newsOf } = await import('../manage/console.ts');
        const [known, nowMs] = [await healthOfPage(), systemClock.monotonic()];
        if (shown === undefined || nowMs >= shown.untilMs) {
          const parts = { ...managed, recent, trends, health: known, traffic: managed.broker.traffic?.() };
          const more = { runs: { deadLetterRecovery, backupDrain }, environment: environmentName() ?? null };
          const facts = consoleFacts({ ...parts, ...more, nowMs: systemClock.now() });
          shown = { facts, untilMs: nowMs + pageFreshMs };
        }
        return { ...shown.facts, ...newsOf({ recent, trends }, afterMs) };
      },
      info: () => managed.info,
      targets: managed.sources.captureTargets,
      deadLetters: () => ({ waiting: managed.sources.dlqWaiting(), recent: recentDlqOf(managed.sources) }),
      deadLetterTopic: deadLetterTopicOf(config, logger),
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
    logger,
  );
  if (started === undefined) return void recent.close();
  logger.info(`management on http://${hostOf(started)}/metrics`);
  const takeBack = nameProcess(started, managed.info, logger);
  const stopRuns = async (deadlineMs: number): Promise<void> =>
    void (await Promise.all([deadLetterRecovery.stop(deadlineMs), backupDrain.stop(deadlineMs)]));
  return {
    ...{ ...started, stopRuns },
    isRunning: () => deadLetterRecovery.isRunning() || backupDrain.isRunning(),
    close() {
      takeBack();
      recent.close();
      return started.close();
    },
  };
}

/**
 * Registers the process for other programs of the same user. Returns a function that removes the entry; the exit of the process does so
 * too.
 */
function nameProcess({ address, port }: ManagementServer, info: Info, logger: Logger): () => void {
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

/** The serializer is loaded at the first scrape, because many applications are never scraped here. */
async function metricsText({ sources, info }: Managed): Promise<string> {
  const { renderMetrics } = await import('../observe/prometheus.ts');
  return renderMetrics(sources, info.service);
}

function hostOf({ address, port }: ManagementServer): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}

async function reportParts({ sources, outbox, broker }: Managed): Promise<ReportParts> {
  const health = await outbox?.health();
  return { sources, outbox: health, traffic: broker.traffic?.(), nowMs: systemClock.now() };
}

function reset(breaker: ResettableBreaker | undefined): BreakerReset | null {
  if (breaker === undefined) return null;
  const before = breaker.state;
  breaker.reset();
  return { before, after: breaker.state };
}

function healthOf(
  { broker: settings }: Config,
  { broker, onAway, problem, remark, keys, sources, outbox }: Managed,
  recent: Recent,
): Controls['health'] {
  let reached = false;
  return cacheHealth({
    probe: async () => {
      const state = await isolate(() => broker.describe());
      reached = true;
      return state;
    },
    known: () => {
      const ids = sources.worker();
      const { tooLarge } = sources.backup();
      return {
        brokerProducerInitialized: reached,
        topic: settings.topic,
        dlqTopic: settings.dlqTopic ?? null,
        ...(ids && { worker: { id: ids.workerId, source: ids.source } }),
        ...(tooLarge > 0 && { tooLargeEvents: tooLarge }),
      };
    },
    recent,
    backupProblem: () => sources.backup().problem,
    alert: problem,
    remark,
    keys,
    targets: sources.captureTargets,
    outbox: outbox?.health,
    onAway,
  });
}

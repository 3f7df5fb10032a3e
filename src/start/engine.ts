import { eventTypeOf } from '../capture/declare/make-plan.ts';
import { doubledCalls, type TargetReport } from '../capture/report.ts';
import { formatProblem, unusedSchemas } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { type ContextOptions, createTraceStarter } from '../context/context-store.ts';
import { createOriginReader } from '../context/origin.ts';
import { readSource } from '../context/source.ts';
import { createEnvelopes } from '../envelope/envelope.ts';
import { createEventIds } from '../envelope/ids.ts';
import { clock, within } from '../ground/clock.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import { circuitStates, clientOf } from '../ground/management.ts';
import { version } from '../ground/version.ts';
import { inLines, logger, throttledLog } from '../observe/logger.ts';
import { bindMeter, type MetricSources } from '../observe/metrics.ts';
import { isolate, meterProvider } from '../observe/otel-api.ts';
import { createPublishDurations, type Ledger } from '../observe/outcomes.ts';
import { joinMainThread, type listenToWorkers } from '../observe/thread-counts.ts';
import type * as Outboxes from '../outbox/outbox.ts';
import { createPipeline } from '../pipeline/pipeline.ts';
import { createProtection } from '../protect/protection.ts';
import { createLossAlert, createRefusalAlert } from '../publish/api/caller-wait.ts';
import { type Broker, nameOf, type SendFailure, throttledMs } from '../publish/broker.ts';
import { type ClusterState, createClusterState } from '../publish/main/cluster-state.ts';
import { createQueue } from '../publish/main/queue.ts';
import { createTiers } from '../publish/tiers/tiers.ts';
import {
  openBroker,
  openLocalBackup,
  openLocalSource,
  openOutboxStore,
  openProvider,
  openS3Backup,
  openTopicReader,
  openWorkerIdLease,
  readsTopics,
} from './adapters.ts';
import { manageLater } from './management-later.ts';
import { openSerde } from './serde.ts';
import { placeOf, queueSettingsOf, recoveryGroup, storedTypesOf } from './settings.ts';

export { declaredRules, planOfDeclaration, planOfTarget } from '../capture/declare/make-plan.ts';
export { unusedSchemas } from '../config/check/check.ts';

/** Built at the first event, or soon after the start, because a start pays for hooks only. */
export function startEngine(
  config: Config,
  contextOptions: ContextOptions,
  ledger: Ledger,
  report: () => readonly TargetReport[],
  workers: ReturnType<typeof listenToWorkers> | undefined,
) {
  const durations = createPublishDurations();
  const alert = createLossAlert();
  const sayRefused = throttledLog();
  const eventTypes = config.targets.map(eventTypeOf);
  // Their counters start at 0.
  ledger.declare(eventTypes);
  const serde = openSerde(config);
  const opened = openBroker(config);
  const broker = serde.sends(opened);
  const { breaker, ...queueSettings } = queueSettingsOf(config);
  const cluster = createClusterState({ ...breaker, ask: () => isolate(async () => broker.describe()) });
  const tiers = tiersOf(config, { broker, ledger, alert, cluster });
  const queue = createQueue({
    ...{ ...queueSettings, cluster },
    broker: serde.sends(opened, config.serde.onRegistryUnavailable === 'backup'),
    next: tiers.next,
    order: tiers.order,
    onPublished: alert.recovered,
    onLost: alert.lost,
    onSendFailed: ledger.brokerFailed,
    onRetried: ledger.retried,
  });
  const protection = createProtection(config, openProvider);
  for (const target of config.targets) protection.addRules(eventTypeOf(target), target.pii ?? [], target.id);
  const source = readSource(config.service);
  const ids = createEventIds(config, () => openWorkerIdLease(config));
  const outbox = config.outbox.enabled
    ? outboxParts().createOutbox(config, { openStore: openOutboxStore, broker, ledger, durations })
    : undefined;
  const { kms } = config.pii;
  const pipeline = createPipeline({
    ledger,
    durations,
    serializer: serde.serializerOf(source),
    publisher: queue,
    keyWait:
      kms.enabled && kms.onUnavailable === 'hold'
        ? { maxEvents: config.broker.buffer.maxEvents, limitMs: queueSettings.deliveryTimeoutMs }
        : undefined,
    outbox: outbox?.join,
    defaultTopic: config.broker.topic,
    asyncMode: config.broker.asyncMode,
    maxWaitMs: config.broker.maxWaitMs,
    publishWaitMs: config.broker.deliveryTimeoutMs,
    nextId: ids.next,
    buildEnvelope: createEnvelopes({ source, readOrigin: createOriginReader(contextOptions) }),
    protect: protection.protect,
    usesMarks: config.pii.enabled,
    declareRules: protection.addSavedRules,
    startTrace: createTraceStarter(clientOf(config.broker.client).isKafka ? 'kafka' : config.broker.client),
    onRefused(eventType, { message, code }) {
      refusals.refused(`${eventType} (${code}): ${message}`);
      sayRefused(`${eventType} ${code}`, ...inLines(`event refused: ${message}`, { eventType, code }));
    },
    onNested: (nest, key) => {
      for (const { line, isLikely } of doubledCalls.inside(nest, key))
        logger[isLikely ? 'warn' : 'info'](`capture: ${line}`);
    },
    onBroken: (event, error) => alert.lost(event, event.topic ?? config.broker.topic, brokenQueue(error)),
  });
  const storedTypes = new Set(storedTypesOf(config));
  workers?.whenEnded({
    ended: tiers.threadEnded,
    // Its transactions end with its connections.
    outcomeOf: (eventType) => (storedTypes.has(eventType) ? 'rolled_back' : 'lost'),
    left: (eventType, outcome, count) => outcome === 'lost' && alert.threadEnded(eventType, count),
  });
  const sources: MetricSources = {
    ledger,
    durations,
    circuit: () => circuitStates.indexOf(cluster.state),
    throttledMs: () => throttledMs(broker),
    buffer: queue.state,
    backup: tiers.backup,
    worker: ids.worker,
    outbox: outbox?.state,
    captureTargets: () => report().map(({ id, ...target }) => ({ target: id, ...target })),
    lastPublishedMs: cluster.lastStoredMs,
    // All threads of a process share the topic, so only the main thread asks.
    dlqWaiting: workers === undefined ? () => null : tiers.dlqWaiting,
    recentDlqEvents: tiers.recentDlq,
  };
  const meter = bindMeter(meterProvider, sources, { version });
  logger.info(whereTo(config));
  for (const each of unusedSchemas(config, eventTypes, false)) logger.warn(formatProblem(each));
  const info = { service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } };
  const leaveMainThread =
    workers === undefined
      ? joinMainThread(sources, {
          resetBreakers() {
            cluster.reset();
            outbox?.breaker()?.reset();
          },
          invalidateKeys: () => void protection.invalidateKeys(),
        })
      : undefined;
  const all = workers === undefined ? sources : workers.withCounts(sources);
  const refusals = createRefusalAlert(all.ledger.rows);
  const management = manageLater(config, {
    broker,
    onAway: cluster.silent,
    problem: () => alert.state() ?? ids.problem() ?? refusals.state(),
    remark: () => queue.refusals() ?? doubledCalls.remark(),
    refusesAll: refusals.isGoingOn,
    keys: protection.keys,
    invalidateKeys: protection.invalidateKeys,
    sources: all,
    info,
    outbox: outbox?.managed,
    breakers: { broker: cluster, ...(outbox && { outbox: outbox.breaker }) },
    finishBackup: tiers.finishBackup,
  });
  let isClosing = false;
  // The lease of a worker id starts afterwards, so that a connection error is logged once.
  void connectEarly(broker, queue, cluster, () => isClosing).then(ids.lease);
  serde.prepare();

  return {
    pipeline,
    protection,
    flush(deadlineMs: number): Promise<boolean> {
      queue.flush();
      return within(deadlineMs, pipeline.soFar());
    },
    /** The relay of the outbox, or a recovery, has something to finish. */
    isBusy: (): boolean => outbox?.isUnfinished() === true || management.isRunning(),
    async finish(deadlineMs: number, isWanted?: () => boolean): Promise<boolean> {
      const finishQueue = async (): Promise<boolean> => {
        const end = clock.monotonic() + deadlineMs;
        const { keyWait } = pipeline;
        // Half of the time is for the keys, the rest for the broker.
        const isSealed = keyWait === undefined || (await within(deadlineMs / 2, keyWait.settled()));
        if (!isSealed && isWanted?.() !== false) keyWait?.endWaiting();
        const isFinished = await queue.finish(end - clock.monotonic(), isWanted);
        // Callers that wait for an outcome are told right after the queue.
        await within(0, pipeline.idle());
        return isFinished;
      };
      const [isFinished, isRelayed] = await Promise.all([
        finishQueue(),
        outbox?.finish(deadlineMs) ?? true,
        management.stopRuns(deadlineMs),
      ]);
      return isFinished && isRelayed;
    },
    /** Events that wait for the end of their transaction. A flush does not wait for them. */
    joined: (): number => outbox?.join.pending() ?? 0,
    storeSync: (): number => tiers.storeSync(queue.takeOver(tiers.storeLateSync)),
    async close(deadlineMs: number): Promise<void> {
      const end = clock.monotonic() + deadlineMs;
      isClosing = true;
      // First: the next start in this process may use the same port.
      const managementClosed = Promise.all([management.close(), management.stopRuns(deadlineMs)]);
      pipeline.keyWait?.endWaiting();
      await queue.close(deadlineMs);
      await tiers.close(Math.max(0, end - clock.monotonic()));
      await outbox?.close(Math.max(0, end - clock.monotonic()));
      const restMs = Math.max(0, end - clock.monotonic());
      await Promise.all([broker.close(restMs), ids.close(restMs)]);
      await protection.close();
      leaveMainThread?.();
      await managementClosed;
      meter.close();
    },
  };
}

/** The tiers with their adapters. */
export function tiersOf(config: Config, parts: Pick<TiersParts, 'broker' | 'ledger' | 'alert' | 'cluster'>) {
  const { dlqBackupPath: directory, backup } = config.broker;
  const { format, maxFiles, maxBytes } = backup;
  return createTiers(config, {
    ...parts,
    openLocal: (isJournal) => openLocalBackup({ directory, format, maxFiles, maxBytes, isJournal }),
    // A tenth on top of the limit of the backup.
    openSource: (own) => openLocalSource({ directory, now: clock.now, maxAsideBytes: maxBytes / 10, own }),
    openS3: () => openS3Backup(config),
    openReader: readsTopics(config.broker.client)
      ? (topic) => openTopicReader(config, { topic, group: recoveryGroup, keepsAlive: false })
      : undefined,
  });
}

type TiersParts = Parameters<typeof createTiers>[1];

/** A process without an outbox does not load it. */
function outboxParts(): typeof Outboxes {
  return loadChunk(import.meta.url, '../outbox/outbox.ts') as typeof Outboxes;
}

function whereTo(config: Config): string {
  const { client, topic } = config.broker;
  const place = placeOf(config);
  const where = place === undefined ? `through ${client}` : `to ${place}`;
  const hint = clientOf(client).isFiles ? ' (set svc.broker.bootstrap-servers for Kafka)' : '';
  return `publishing ${where}, default topic ${topic}${hint}`;
}

/** The last resort: after any error in the queue the application continues, and the event is counted. */
function brokenQueue(error: unknown): SendFailure {
  return { kind: 'unknown_outcome', cause: nameOf(error), message: 'svc itself failed; please report it' };
}

/** Reports a wrong password at the start rather than at the first event. */
async function connectEarly(
  broker: Broker,
  queue: ReturnType<typeof createQueue>,
  cluster: ClusterState,
  isClosing: () => boolean,
): Promise<void> {
  const sinceMs = clock.monotonic();
  const result = await isolate(() => broker.connect());
  // An error after svc has closed the connection says nothing about the broker.
  if (result.ok || isClosing()) return;
  const { kind, message, cause } = result.failure;
  logger.error(`broker: ${message}`, { cause });
  // Events in the queue have their own retries.
  if (kind !== 'fatal' && queue.state().events === 0) cluster.silent(message, sinceMs);
}

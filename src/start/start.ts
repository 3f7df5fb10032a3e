import { AsyncResource } from 'node:async_hooks';
import { isMainThread } from 'node:worker_threads';
import { checkRuleFields } from '../capture/declare/check-rule-fields.ts';
import { connectDeclarations, disconnectDeclarations } from '../capture/declare/declarations.ts';
import { declaredRules } from '../capture/declare/declared-rules.ts';
import { makeRule } from '../capture/declare/make-rule.ts';
import { prepare } from '../capture/prepare.ts';
import type { TargetReport } from '../capture/report.ts';
import { type CaptureSlot, createSlot } from '../capture/slot.ts';
import type { Config } from '../config/config.ts';
import type { ContextOptions } from '../context/context-options.ts';
import { createOriginReader } from '../context/origin.ts';
import { installRequestContext } from '../context/request/request-context.ts';
import { readSource } from '../context/source.ts';
import { createTraceStarter } from '../context/trace/event-trace.ts';
import { createEnvelopeBuilder } from '../envelope/build.ts';
import { createTemplates } from '../envelope/template.ts';
import { systemClock, within } from '../ground/clock.ts';
import { version } from '../ground/version.ts';
import { createPublishDurations } from '../observe/durations.ts';
import { isolate } from '../observe/isolate.ts';
import type { Logger } from '../observe/logger.ts';
import { bindMeter } from '../observe/meter.ts';
import type { MetricSources } from '../observe/metrics.ts';
import { otelApi } from '../observe/otel-api.ts';
import { createLedger, type Ledger } from '../observe/outcomes.ts';
import { createQuietLog } from '../observe/quiet-log.ts';
import { listenToWorkers, tellMainThread, type WorkerCounts } from '../observe/thread-channel.ts';
import { withCounts } from '../observe/thread-counts.ts';
import type { Broker } from '../publish/broker.ts';
import { circuitStates } from '../publish/main/breaker.ts';
import { brokenQueue, shutDown } from '../publish/main/failures.ts';
import { createQueue, type Queue } from '../publish/main/queue.ts';
import type { Producer } from '../publish/producer.ts';
import { createLossAlert } from '../publish/tiers/loss-alert.ts';
import { jsonSerializer } from '../serialize/json.ts';
import { openBroker } from './adapters.ts';
import { startIds } from './ids.ts';
import { manageLater } from './management-later.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import { type Protection, startProtection } from './protection.ts';
import { brokerSettingsOf, contextOptionsOf, queueSettingsOf } from './settings.ts';
import { captureTargetOf, eventTypeOf, eventTypesOf, reportOf } from './targets.ts';
import { startTiers } from './tiers.ts';

/** svc, running in this process. */
export interface Service {
  readonly producer: Producer;
  /** What became of the publish targets, configured ones and those declared in code. */
  report(): readonly TargetReport[];
  /** Events without an outcome yet. */
  pending(): number;
  /** Waits for the events so far; gives none of them up. Returns whether all have their outcome. */
  flush(deadlineMs: number): Promise<boolean>;
  /** Forgets the keys of a key service, and fetches them anew. */
  invalidateEncryptionKeys(): Promise<void>;
  /** Resolves when no event is under way. Towards the deadline, what is not acknowledged goes to the next tier. */
  finish(deadlineMs: number): Promise<boolean>;
  /**
   * The last word of a process that ends: writes what has no outcome yet to the backup, synchronously, and from then on
   * each event of the application's own exit handlers. Returns how many were written now.
   */
  save(): number;
  /** What else the report at the end says, a line each. */
  remarks(): readonly string[];
  /** Stops intake, flushes up to the deadline, disconnects and closes the management server. */
  stop(deadlineMs: number): Promise<void>;
}

/** What is made at the first event, or soon after the start: a start pays for hooks only. */
interface Engine {
  readonly pipeline: Pipeline;
  flush(deadlineMs: number): Promise<boolean>;
  finish(deadlineMs: number): Promise<boolean>;
  save(): number;
  readonly protection: Protection;
  close(deadlineMs: number): Promise<void>;
}

/** The only place where objects are built: configuration -> adapters -> pipeline -> handle. */
export function start(config: Config, logger: Logger): Service {
  const ledger = createLedger();
  const contextOptions = contextOptionsOf(config, logger);
  const uninstallContext = installRequestContext(contextOptions);
  const workers = isMainThread ? listenToWorkers() : undefined;
  const capture = prepare(config.aop.enabled ? config.targets.map(captureTargetOf) : [], {
    baseDir: config.baseDir,
    logger,
  });
  const declared: CaptureSlot[] = [];
  const report = () => [...capture.report(), ...declared.map(reportOf)];
  const early: Parameters<Protection['addRules']>[] = [];
  let engine: Engine | undefined;
  let isOver = false;
  // The first event may start it: its timers and connections must not keep the context of that one call.
  const outside = new AsyncResource('svc');
  const running = (): Engine => {
    if (engine === undefined) {
      engine = outside.runInAsyncScope(() =>
        startEngine(config, contextOptions, ledger, report, workers, logger),
      );
      for (const rules of early) engine.protection.addRules(...rules);
      if (isOver) engine.save();
    }
    return engine;
  };

  if (config.aop.enabled) {
    const onCall: CaptureSlot['onCall'] = (call) => running().pipeline.onCall(call);
    capture.setOnCall(onCall);
    connectDeclarations(
      ({ name, origin, options, parameterNames }) => {
        checkRuleFields(options);
        const rule = makeRule(name, origin, options, name, parameterNames);
        const rules = declaredRules(options, config);
        if (engine === undefined) early.push([rule.eventType, rules, rule.id]);
        else engine.protection.addRules(rule.eventType, rules, rule.id);
        const slot = createSlot(rule, onCall);
        declared.push(slot);
        return slot;
      },
      ({ name }, reason) =>
        logger.error(`${name} is not captured: ${reason instanceof Error ? reason.message : reason}`),
    );
  }
  // Without an event so far, the broker and the management server start once the application's first turn is over.
  // Whoever requires svc hears of what fails before the application does anything.
  if (config.required) running();
  setImmediate(() => {
    try {
      running();
    } catch (error) {
      logger.error(`could not start: ${error instanceof Error ? error.message : 'unknown error'}`);
    }
  }).unref();

  return {
    producer: { publish: (payload, options) => running().pipeline.producer.publish(payload, options) },
    report,
    pending: () => ledger.snapshot().inFlight,
    flush: async (deadlineMs) => engine?.flush(deadlineMs) ?? true,
    invalidateEncryptionKeys: async () => engine?.protection.invalidateKeys(),
    finish: async (deadlineMs) => engine?.finish(deadlineMs) ?? true,
    save: () => {
      isOver = true;
      return engine?.save() ?? 0;
    },
    remarks: () => engine?.protection.remarks() ?? [],
    async stop(deadlineMs) {
      capture.close();
      for (const slot of declared) slot.onCall = null;
      disconnectDeclarations();
      workers?.close();
      uninstallContext();
      await engine?.close(deadlineMs);
    },
  };
}

function startEngine(
  config: Config,
  contextOptions: ContextOptions,
  ledger: Ledger,
  report: () => readonly TargetReport[],
  workers: WorkerCounts | undefined,
  logger: Logger,
): Engine {
  const clock = systemClock;
  const durations = createPublishDurations();
  const alert = createLossAlert(logger, clock);
  const sayRefused = createQuietLog(logger, clock);
  ledger.declare(eventTypesOf(config));
  const broker = openBroker(config.broker.client, brokerSettingsOf(config, logger));
  const isAway = (): boolean => queue.breaker.state !== 'CLOSED';
  const tiers = startTiers(config, { broker, ledger, alert, logger, isAway });
  const queue: Queue = createQueue({
    ...queueSettingsOf(config),
    broker,
    clock,
    logger,
    isolate,
    next: tiers.next,
    onPublished() {
      alert.recovered();
      tiers.published();
    },
    onSendFailed: ledger.brokerFailed,
    onRetried: ledger.retried,
  });
  const protection = startProtection(config, logger);
  for (const target of config.targets) protection.addRules(eventTypeOf(target), target.pii ?? [], target.id);
  const source = readSource(config.service);
  const ids = startIds(config, clock, logger);
  const pipeline = createPipeline({
    clock,
    ledger,
    durations,
    serializer: jsonSerializer,
    publisher: queue,
    defaultTopic: config.broker.topic,
    asyncMode: config.broker.asyncMode,
    maxWaitMs: config.broker.maxWaitMs,
    publishWaitMs: config.broker.deliveryTimeoutMs,
    templateOf: createTemplates(source),
    nextId: ids.next,
    buildEnvelope: createEnvelopeBuilder({ readOrigin: createOriginReader(contextOptions) }),
    protect: protection.protect,
    startTrace: createTraceStarter(
      /^(file|memory)$/.test(config.broker.client) ? config.broker.client : 'kafka',
    ),
    onRefused: (eventType, { message, code }) =>
      sayRefused(`${eventType} ${code}`, `event refused: ${message}`, { eventType, code }),
    onBroken: (event, error) => alert.lost(event, event.topic ?? config.broker.topic, brokenQueue(error)),
  });
  const sources: MetricSources = {
    ledger,
    durations,
    circuit: () => circuitStates.indexOf(queue.breaker.state),
    buffer: queue.state,
    backup: tiers.backup,
    worker: ids.worker,
    captureTargets: () => report().map(({ id, ...target }) => ({ ...target, target: id })),
  };
  bindMeter(otelApi, sources, { version, logger });
  logger.info(whereTo(config));
  const info = { service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } };
  const stopTelling = workers === undefined ? tellMainThread(sources) : undefined;
  const all = workers === undefined ? sources : withCounts(sources, workers.counts);
  const management = manageLater(config, logger, {
    broker,
    onAway: queue.clusterAway,
    alert,
    keys: protection.keys,
    sources: all,
    info,
  });
  // Aside, and after it: what is wrong with the connection is said once.
  void connectEarly(broker, queue, logger).then(ids.lease);

  return {
    pipeline,
    protection,
    flush(deadlineMs) {
      queue.flush();
      return within(deadlineMs, pipeline.soFar());
    },
    async finish(deadlineMs) {
      const isFinished = await queue.finish(deadlineMs);
      // Whoever waits for an event's outcome hears of it right after the queue.
      await within(0, pipeline.idle());
      return isFinished;
    },
    save: () => tiers.save(queue.surrender(shutDown, tiers.saveLate)),
    async close(deadlineMs) {
      const end = clock.monotonic() + deadlineMs;
      await queue.close(deadlineMs);
      await tiers.close(Math.max(0, end - clock.monotonic()));
      const restMs = Math.max(0, end - clock.monotonic());
      await Promise.all([broker.close(restMs), ids.close(restMs)]);
      await protection.close();
      stopTelling?.();
      await management.close();
    },
  };
}

function whereTo({ broker }: Config): string {
  const topic = `default topic ${broker.topic}`;
  if (broker.client === 'file') {
    return `publishing to files in ${broker.file.path}, ${topic} (set svc.broker.bootstrap-servers for Kafka)`;
  }
  const servers = broker.client === 'memory' ? 'memory' : `Kafka at ${broker.bootstrapServers.join(', ')}`;
  return `publishing to ${servers} through ${broker.client}, ${topic}`;
}

/** So that a wrong password is said at start, not at the first event. */
async function connectEarly(broker: Broker, queue: Queue, logger: Logger): Promise<void> {
  const sinceMs = systemClock.monotonic();
  const result = await isolate(() => broker.connect());
  if (result.ok) return;
  const { kind, message, cause } = result.failure;
  logger.error(`broker: ${message}`, { cause });
  // Events that are there already have their retries.
  if (kind !== 'fatal' && queue.state().events === 0) queue.clusterAway(message, sinceMs);
}

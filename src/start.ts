import { type BrokerSettings, openBroker } from './adapters.ts';
import { connectDeclarations, disconnectDeclarations } from './capture/declarations.ts';
import { defaultEventType, makeRule } from './capture/make-rule.ts';
import { type CaptureTarget, prepare } from './capture/prepare.ts';
import type { TargetReport } from './capture/report.ts';
import type { CaptureSlot } from './capture/slot.ts';
import { systemClock, within } from './clock.ts';
import type { Config } from './config/config.ts';
import type { TargetConfig } from './config/target.ts';
import type { ContextOptions } from './context/context-options.ts';
import { createTraceStarter } from './context/event-trace.ts';
import { createOriginReader } from './context/origin.ts';
import { installRequestContext } from './context/request-context.ts';
import { readSource } from './context/source.ts';
import { createEnvelopeBuilder } from './envelope/build.ts';
import { createSnowflake } from './envelope/snowflake.ts';
import { createTemplates } from './envelope/template.ts';
import { leaseWorkerId } from './envelope/worker-lease.ts';
import { startOwnWork } from './lifecycle.ts';
import type { Controls } from './manage/controls.ts';
import { cacheHealth } from './manage/health-cache.ts';
import { type ManagementServer, startManagementServer } from './manage/server.ts';
import { createPublishDurations } from './observe/durations.ts';
import { renderMetrics } from './observe/exposition.ts';
import type { Logger } from './observe/logger.ts';
import { bindMeter } from './observe/meter.ts';
import type { MetricSources } from './observe/metrics.ts';
import { otelApi } from './observe/otel-api.ts';
import { createLedger, type Ledger } from './observe/outcomes.ts';
import { withoutSpans } from './observe/spans.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import type { Broker } from './publish/broker.ts';
import { createDirectPublisher } from './publish/direct.ts';
import { createLossAlert, type LossAlert } from './publish/loss-alert.ts';
import type { Producer } from './publish/producer.ts';
import { jsonSerializer } from './serialize/json.ts';
import { declaredRules, type Protection, startProtection } from './start-protection.ts';
import { version } from './version.ts';

/** svc, running in this process. */
export interface Service {
  readonly producer: Producer;
  /** What became of the publish targets, configured ones and those declared in code. */
  report(): readonly TargetReport[];
  /** Events without an outcome yet. */
  pending(): number;
  /** Resolves when no event is under way, at the deadline at the latest. */
  drain(deadlineMs: number): Promise<void>;
  /** Stops intake, flushes up to the deadline, disconnects and closes the management server. */
  stop(deadlineMs: number): Promise<void>;
}

/** What is made at the first event, or soon after the start: a start pays for hooks only. */
interface Engine {
  readonly pipeline: Pipeline;
  readonly protection: Protection;
  close(deadlineMs: number): Promise<void>;
}

/** The only place where objects are built: configuration -> adapters -> pipeline -> handle. */
export function start(config: Config, logger: Logger): Service {
  const ledger = createLedger();
  const contextOptions = contextOptionsOf(config, logger);
  const uninstallContext = installRequestContext(contextOptions);
  const capture = prepare(config.aop.enabled ? config.targets.map(captureTargetOf) : [], {
    baseDir: config.baseDir,
    logger,
  });
  const declared: CaptureSlot[] = [];
  const report = () => [...capture.report(), ...declared.map(reportOf)];
  const early: Parameters<Protection['addRules']>[] = [];
  let engine: Engine | undefined;
  const running = (): Engine => {
    if (engine === undefined) {
      engine = startEngine(config, contextOptions, ledger, report, logger);
      for (const rules of early) engine.protection.addRules(...rules);
    }
    return engine;
  };

  if (config.aop.enabled) {
    const onCall: CaptureSlot['onCall'] = (call) => running().pipeline.onCall(call);
    capture.setOnCall(onCall);
    connectDeclarations(
      ({ name, origin, options, parameterNames }) => {
        const rule = makeRule(name, origin, options, name, parameterNames);
        const rules = declaredRules(options, config);
        if (engine === undefined) early.push([rule.eventType, rules]);
        else engine.protection.addRules(rule.eventType, rules);
        const slot = { rule, onCall, calls: 0 };
        declared.push(slot);
        return slot;
      },
      ({ name }, reason) =>
        logger.error(`${name} is not captured: ${reason instanceof Error ? reason.message : reason}`),
    );
  }
  setImmediate(running).unref();

  return {
    producer: { publish: (payload, options) => running().pipeline.producer.publish(payload, options) },
    report,
    pending: () => ledger.snapshot().inFlight,
    drain: (deadlineMs) =>
      engine === undefined ? Promise.resolve() : within(deadlineMs, engine.pipeline.idle()),
    async stop(deadlineMs) {
      capture.close();
      for (const slot of declared) slot.onCall = null;
      disconnectDeclarations();
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
  logger: Logger,
): Engine {
  const clock = systemClock;
  const durations = createPublishDurations();
  const alert = createLossAlert(logger, clock);
  ledger.declare(eventTypesOf(config));
  const broker = openBroker(config.broker.client, brokerSettingsOf(config, logger));
  const publisher = createDirectPublisher({
    broker,
    topic: config.broker.topic,
    clock,
    maxInFlight: config.broker.maxInFlight,
    maxEvents: config.broker.buffer.maxEvents,
    isolate: (work) => startOwnWork(() => withoutSpans(work)),
    onSuccess: alert.recovered,
    onFailure(event, topic, failure) {
      ledger.brokerFailed(failure.kind);
      alert.lost(event, topic, failure);
    },
  });
  const protection = startProtection(config, logger);
  for (const target of config.targets) protection.addRules(eventTypeOf(target), target.pii ?? []);
  const source = readSource(config.service);
  const { workerId, directory } = {
    workerId: config.idGenerator.workerId,
    directory: config.idGenerator.leasePath,
  };
  const worker = leaseWorkerId({ workerId, directory, logger });
  const snowflake = createSnowflake({ workerId: worker.workerId, clock });
  const pipeline = createPipeline({
    clock,
    ledger,
    durations,
    serializer: jsonSerializer,
    publisher,
    defaultTopic: config.broker.topic,
    asyncMode: config.broker.asyncMode,
    templateOf: createTemplates(source),
    nextId: () => snowflake.next(),
    buildEnvelope: createEnvelopeBuilder({ readOrigin: createOriginReader(contextOptions) }),
    protect: protection.protect,
    startTrace: createTraceStarter(config.broker.client === 'kafkajs' ? 'kafka' : config.broker.client),
    onRefused: (eventType, { message, code }) =>
      logger.error(`event refused: ${message}`, { eventType, code }),
  });
  const sources: MetricSources = {
    ledger,
    durations,
    captureTargets: () => report().map(({ id, state, calls }) => ({ target: id, state, calls })),
  };
  bindMeter(otelApi, sources, { version, logger });
  const management = startManagement(config, logger, {
    health: healthOf(config, broker, alert),
    metricsText: () => renderMetrics(sources),
    info: () => ({ service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } }),
  });
  logger.info(whereTo(config));
  void management.then((server) => {
    if (server) logger.info(`management on http://${hostOf(server)}/metrics`);
  });
  connectEarly(broker, logger);

  return {
    pipeline,
    protection,
    async close(deadlineMs) {
      await publisher.close(deadlineMs);
      await protection.close();
      worker.release();
      await (await management)?.close();
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

function hostOf({ address, port }: ManagementServer): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}

/** So that a wrong password is said at start, not at the first event. */
function connectEarly(broker: Broker, logger: Logger): void {
  void startOwnWork(() => withoutSpans(() => broker.connect())).then((result) => {
    if (!result.ok) logger.error(`broker: ${result.failure.message}`, { cause: result.failure.cause });
  });
}

function healthOf(config: Config, broker: Broker, alert: LossAlert): Controls['health'] {
  let reached = false;
  return cacheHealth({
    probe: async () => {
      const state = await startOwnWork(() => withoutSpans(() => broker.describe()));
      reached = true;
      return state;
    },
    known: () => ({ brokerProducerInitialized: reached, topic: config.broker.topic, dlqTopic: null }),
    alert: alert.state,
  });
}

function startManagement(
  config: Config,
  logger: Logger,
  controls: Controls,
): ReturnType<typeof startManagementServer> {
  const { server, endpoints, endpoint } = config.management;
  const exposure = endpoints.web.exposure.include;
  return startManagementServer(
    { ...server, exposure, showDetails: endpoint.health.showDetails },
    controls,
    logger,
  );
}

function captureTargetOf(target: TargetConfig): CaptureTarget {
  const eventType = defaultEventType(target.function, target.module);
  return {
    id: target.id,
    module: target.module,
    functionPath: target.function,
    makeRule: (names) => makeRule(target.id, 'configuration', target, eventType, target.params ?? names),
  };
}

/** So that their counters begin at 0. */
function eventTypesOf({ targets }: Config): string[] {
  return targets.map(eventTypeOf);
}

function eventTypeOf({ eventType, function: name, module }: TargetConfig): string {
  return eventType ?? defaultEventType(name, module);
}

function reportOf({ rule, calls }: CaptureSlot): TargetReport {
  return { id: rule.id, state: 'patched', notes: [rule.origin], calls };
}

function contextOptionsOf({ context, security }: Config, logger: Logger): ContextOptions {
  return {
    correlationHeaders: context.correlationId.headers,
    generateCorrelationId: context.correlationId.generate,
    correlationResponseHeader: context.correlationId.responseHeader,
    useForwardedHeaders: security.useForwardedHeaders,
    trustedProxies: security.trustedProxies,
    userId: context.actor.userId,
    sessionId: context.actor.sessionId,
    baggageTags: context.tags.baggage,
    logger,
  };
}

function brokerSettingsOf({ broker }: Config, logger: Logger): BrokerSettings {
  const { mechanism, username, password } = broker.sasl;
  return {
    brokers: broker.bootstrapServers,
    clientId: broker.clientId,
    requestTimeoutMs: broker.requestTimeoutMs,
    connectionTimeoutMs: broker.connectionTimeoutMs,
    tls: broker.tls.enabled ? broker.tls : undefined,
    sasl:
      mechanism === undefined ? undefined : { mechanism, username: username ?? '', password: password ?? '' },
    directory: broker.file.path,
    logger,
  };
}

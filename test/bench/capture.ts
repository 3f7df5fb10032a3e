import { context, metrics, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, InMemorySpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Bench } from '../../scripts/bench.ts';
import { type CaptureSlot, createSlot } from '../../src/capture/slot.ts';
import { wrapFunction } from '../../src/capture/wrap/wrap.ts';
import { createTraceStarter } from '../../src/context/context-store.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { runWithContext } from '../../src/context/request.ts';
import { createEnvelopes } from '../../src/envelope/envelope.ts';
import { createSnowflake } from '../../src/envelope/ids.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { bindMeter } from '../../src/observe/metrics.ts';
import { createLedger, createPublishDurations } from '../../src/observe/outcomes.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { createPolicies } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import type { Publisher } from '../../src/publish/publisher.ts';
import { jsonSerializer } from '../../src/serialize/serializer.ts';
import { planOf } from '../capture/plan-of.ts';
import { payload } from './payload.ts';

const calls = 60_000;
const rounds = 8;

/** Microseconds of CPU per call: the best round, the first one warms up. */
async function cpuPerCall(work: () => unknown): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round <= rounds; round++) {
    const before = process.cpuUsage();
    for (let call = 0; call < calls; call++) await work();
    const { user, system } = process.cpuUsage(before);
    if (round > 0) best = Math.min(best, (user + system) / calls);
  }
  return Number(best.toFixed(3));
}

const nullPublisher: Publisher = { publish: () => Promise.resolve('published') };

/** What `start.ts` builds, over a publisher that only takes the event. */
function captured(): {
  fn: () => Promise<unknown>;
  slot: CaptureSlot;
  sources: Parameters<typeof bindMeter>[1];
} {
  const ledger = createLedger();
  const durations = createPublishDurations();
  const source = { serviceName: 'orders', serviceVersion: '1.4.0', hostname: 'host-1' };
  const snowflake = createSnowflake({ workerId: 1 });
  const { onCall } = createPipeline({
    ledger,
    durations,
    serializer: jsonSerializer,
    publisher: nullPublisher,
    defaultTopic: 'orders.events.v1',
    maxWaitMs: 2_000,
    publishWaitMs: 32_000,
    asyncMode: true,
    nextId: () => snowflake.next(),
    buildEnvelope: createEnvelopes({ source, readOrigin: createOriginReader() }),
    usesMarks: true,
    protect: createProtector({
      policyOf: createPolicies({ general: [] }).policyOf,
      sealer: createSealer({}),
    }),
    startTrace: createTraceStarter('kafka'),
    onRefused: (_, error) => {
      throw error;
    },
    onBroken: (_, error) => {
      throw error;
    },
  });
  const plan = planOf({ eventType: 'ORDER_CREATED' });
  const slot = createSlot(plan, onCall);
  return {
    fn: wrapFunction(createOrder, slot),
    slot,
    sources: {
      ledger,
      durations,
      circuit: () => 0,
      buffer: () => ({ events: 0, bytes: 0, overflows: 0 }),
      backup: () => ({ files: 0, events: 0, bytes: 0, tooLarge: 0, drained: 0, oldestMs: 0 }),
      worker: () => undefined,
      captureTargets: () => [],
      lastPublishedMs: () => null,
      dlqWaiting: () => null,
      recentDlqEvents: () => [],
    },
  };
}

async function createOrder(): Promise<unknown> {
  return payload;
}

export const bench: Bench = async (progress) => {
  progress(
    `us of CPU per call, best of ${rounds} x ${calls}, payload ${JSON.stringify(payload).length} bytes, Node ${process.version}`,
  );
  const bare = await cpuPerCall(createOrder);
  const stringify = await cpuPerCall(() => JSON.stringify(payload));
  const { fn, slot, sources } = captured();
  const { onCall } = slot;
  slot.onCall = null;
  const off = await cpuPerCall(fn);
  slot.onCall = onCall;
  const withoutSdk = await runWithContext({ userId: 'u-17', correlationId: 'c-1' }, () => cpuPerCall(fn));

  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const spans = new BatchSpanProcessor({ exporter: new InMemorySpanExporter() });
  const tracers = new TracerProvider({ spanProcessors: [spans] });
  trace.setGlobalTracerProvider(tracers);
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60_000 });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  useLogger(logger);
  const meter = bindMeter(() => metrics.getMeterProvider(), sources, { version: 'bench' });
  const parent = tracers.getTracer('bench').startSpan('request');
  const on = await context.with(trace.setSpan(context.active(), parent), () =>
    runWithContext({ userId: 'u-17', correlationId: 'c-1' }, () => cpuPerCall(fn)),
  );
  parent.end();
  meter.close();
  await Promise.allSettled([tracers.shutdown(), reader.shutdown()]);

  const unit = 'us';
  const ratio = (value: number) => Number((value / stringify).toFixed(2));
  return [
    { case: 'bare', value: bare, unit },
    { case: 'stringify', value: stringify, unit },
    { case: 'off', value: Number((off - bare).toFixed(3)), unit },
    { case: 'on', value: on, unit, against: 'stringify', ratio: ratio(on) },
    { case: 'on-without-sdk', value: withoutSdk, unit, against: 'stringify', ratio: ratio(withoutSdk) },
  ];
};

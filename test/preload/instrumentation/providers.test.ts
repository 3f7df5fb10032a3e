import assert from 'node:assert/strict';
import { metrics, trace } from '@opentelemetry/api';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { type InstrumentedApp, instrumentedApp } from './instrumented-app.ts';

/** An SDK of its own: what it has seen of svc. */
function sdk() {
  const spans = new InMemorySpanExporter();
  // Cumulative ones are exported for ever with their last value, whoever made them.
  const exported = new InMemoryMetricExporter(AggregationTemporality.DELTA);
  const reader = new PeriodicExportingMetricReader({ exporter: exported, exportIntervalMillis: 3_600_000 });
  return {
    tracers: new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] }),
    meters: new MeterProvider({ readers: [reader] }),
    spanCount: () => spans.getFinishedSpans().filter(({ kind }) => kind === 3).length,
    /** Names of svc's instruments with a value now. */
    async instruments(): Promise<string[]> {
      exported.reset();
      await reader.forceFlush();
      const all = exported.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics);
      return all
        .filter(({ scope }) => scope.name === 'svc')
        .flatMap((one) => one.metrics.map(({ descriptor }) => descriptor.name));
    },
  };
}

describe('the providers of SvcInstrumentation', () => {
  let app: InstrumentedApp;
  const forget = (): void => {
    trace.disable();
    metrics.disable();
  };
  beforeEach(() => {
    forget();
    app = instrumentedApp();
  });
  afterEach(async () => {
    await app.remove();
    forget();
  });

  it('are those that it is handed, not the registered ones', async () => {
    const [own, registered] = [sdk(), sdk()];
    trace.setGlobalTracerProvider(registered.tracers);
    metrics.setGlobalMeterProvider(registered.meters);
    const instrumentation = app.make();
    instrumentation.setTracerProvider(own.tracers);
    instrumentation.setMeterProvider(own.meters);
    await app.load()(1);
    assert.deepEqual([own.spanCount(), registered.spanCount()], [1, 0]);
    assert.ok((await own.instruments()).includes('svc.events.publish.duration'));
    assert.deepEqual(await registered.instruments(), []);
  });

  it('are those of registerInstrumentations, with nothing registered', async () => {
    const { tracers, meters, spanCount, instruments } = sdk();
    const instrumentations = [app.make({ ...app.config(), enabled: false })];
    const unload = registerInstrumentations({
      instrumentations,
      tracerProvider: tracers,
      meterProvider: meters,
    });
    const order = app.load();
    await order(1);
    assert.equal(spanCount(), 1);
    assert.ok((await instruments()).includes('svc.events.published'));
    unload();
    await app.ended();
    await order(2);
    assert.equal(spanCount(), 1);
    assert.deepEqual(await instruments(), []);
  });

  it('are the registered ones where it is handed what stands for nobody, as SDKs do before they register theirs', async () => {
    const { tracers, meters, spanCount, instruments } = sdk();
    registerInstrumentations({ instrumentations: [app.make()] });
    const order = app.load();
    await order(1);
    trace.setGlobalTracerProvider(tracers);
    metrics.setGlobalMeterProvider(meters);
    await order(2);
    assert.equal(spanCount(), 1);
    assert.ok((await instruments()).includes('svc.events.published'));
  });

  it('can change while it runs: what is handed over later gets all from then on, without waiting for an event', async () => {
    const [first, second] = [sdk(), sdk()];
    const instrumentation = app.make();
    const order = app.load();
    for (const { tracers, meters } of [first, second]) {
      instrumentation.setTracerProvider(tracers);
      instrumentation.setMeterProvider(meters);
      await order(1);
    }
    instrumentation.setMeterProvider(first.meters);
    assert.deepEqual([first.spanCount(), second.spanCount()], [1, 1]);
    assert.ok((await first.instruments()).includes('svc.events.published'));
    assert.ok(!(await second.instruments()).includes('svc.events.published'));
  });

  it('stay after disable() and enable()', async () => {
    const { tracers, meters, spanCount, instruments } = sdk();
    const instrumentation = app.make();
    instrumentation.setTracerProvider(tracers);
    instrumentation.setMeterProvider(meters);
    const order = app.load();
    await order(1);
    instrumentation.disable();
    await app.ended();
    assert.deepEqual(
      (await instruments()).filter((name) => name !== 'svc.events.publish.duration'),
      [],
    );
    instrumentation.enable();
    await order(2);
    assert.equal(spanCount(), 2);
    assert.ok((await instruments()).includes('svc.events.published'));
  });
});

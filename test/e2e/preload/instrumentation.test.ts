import assert from 'node:assert/strict';
import { telemetryApp } from '../support/apps.ts';
import { otelEnvironment, type SdkSeen } from '../support/otel-app.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const target = { module: './orders.cjs', function: 'order', eventType: 'ORDERED' };
const orders = 'exports.order = async (id) => { await null; return { id }; };';
/** `code`: what the instrumentation is given. In both module systems the same lines, but for how packages come in. */
const sdkText = (code: string): string => `
  const spans = [];
  const keep = (span) => spans.push({
    name: span.name, kind: span.kind, ...span.spanContext(), attributes: span.attributes,
    scope: (span.instrumentationScope ?? span.instrumentationLibrary).name,
    parentSpanId: span.parentSpanContext?.spanId ?? null,
  });
  const exporter = new metrics.InMemoryMetricExporter(metrics.AggregationTemporality.CUMULATIVE);
  const reader = new metrics.PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  globalThis.svcInstrumentation = new SvcInstrumentation(${code});
  const sdk = new NodeSDK({
    serviceName: 'orders',
    metricReaders: [reader],
    logRecordProcessors: [],
    instrumentations: [globalThis.svcInstrumentation],
    spanProcessors: [{ onStart() {}, onEnd: keep, forceFlush: async () => {}, shutdown: async () => {} }],
  });
  sdk.start();
  globalThis.sdkSeen = async () => {
    await reader.forceFlush();
    const found = {};
    for (const { scopeMetrics } of exporter.getMetrics())
      for (const { scope, metrics } of scopeMetrics)
        if (scope.name === 'svc') for (const { descriptor, dataPoints } of metrics) found[descriptor.name] = dataPoints.map(({ attributes, value }) => ({ attributes, value }));
    return { spans, metrics: found };
  };`;
const sdk = (code: string): Record<string, string> => ({
  'sdk.mjs': `
    import { NodeSDK } from '@opentelemetry/sdk-node';
    import * as metrics from '@opentelemetry/sdk-metrics';
    import { SvcInstrumentation } from 'svc/instrumentation';
    ${sdkText(code)}`,
  'sdk.cjs': `
    const { NodeSDK } = require('@opentelemetry/sdk-node');
    const metrics = require('@opentelemetry/sdk-metrics');
    const { SvcInstrumentation } = require('svc/instrumentation');
    ${sdkText(code)}`,
});
const call = `
  const main = async () => {
    await order(1);
    console.log(JSON.stringify(await globalThis.sdkSeen()));
  };
  main();`;

const inCode = JSON.stringify(configOf([target]));
const register = ['--import', 'svc/register'];

const ways: readonly [title: string, args: readonly string[], files: AppOptions['files']][] = [
  ['an ES module preload', ['--import', './sdk.mjs', 'main.mjs'], sdk(inCode)],
  ['a CommonJS preload', ['--require', './sdk.cjs', 'main.cjs'], sdk(inCode)],
  ['the first line of a CommonJS application', ['late.cjs'], sdk(inCode)],
  [
    'svc/register before it',
    [...register, '--import', './sdk.mjs', 'main.mjs'],
    { ...sdk(''), 'svc.config.json': configOf([target]) },
  ],
  [
    'svc/register after it',
    ['--import', './sdk.mjs', ...register, 'main.mjs'],
    { ...sdk(''), 'svc.config.json': configOf([target]) },
  ],
];

describe('SvcInstrumentation', function () {
  this.timeout(180_000);
  let app: string;
  const run = (args: readonly string[], files: AppOptions['files'], env = {}): Promise<AppEnd> =>
    endOf({
      app,
      args,
      env: { ...otelEnvironment, ...env },
      files: {
        'orders.cjs': orders,
        'main.mjs': `import { order } from './orders.cjs';${call}`,
        'main.cjs': `const { order } = require('./orders.cjs');${call}`,
        'late.cjs': `require('./sdk.cjs'); const { order } = require('./orders.cjs');${call}`,
        ...files,
      },
    });

  before('npm install', async () => {
    app = await telemetryApp();
  });

  for (const [title, args, files] of ways) {
    it(`publishes once, with a span and instruments of the SDK: ${title}`, async () => {
      const end = await run(args, files);
      const { spans, metrics } = seenBy(end);
      const [event, ...more] = end.topics.events ?? [];
      assert.deepEqual([event?.value.payload, more], [{ id: 1 }, []], end.stderr);
      const own = spans.filter(({ scope }) => scope === 'svc');
      assert.deepEqual(
        own.map(({ name, kind, spanId }) => [name, kind, spanId]),
        [['send events', 3, event?.value.metadata.trace.spanId]],
      );
      assert.deepEqual(metrics['svc.events.published'], [{ attributes: { eventType: 'ORDERED' }, value: 1 }]);
      assert.doesNotMatch(end.stderr, /warn:|error:/);
    });
  }
});

function seenBy(end: AppEnd): SdkSeen {
  assert.equal(end.code, 0, end.stderr);
  assert.doesNotMatch(end.stderr, /duplicate|already registered|Error/i);
  return JSON.parse(end.stdout) as SdkSeen;
}

import type { Dependencies } from '../../support/packed.ts';
import type { OtelLine } from './subject.ts';

/** What an application of each line installs. Exact versions: the two lines cannot share one copy of the API. */
export const telemetryDependencies: Readonly<Record<OtelLine, Dependencies>> = {
  3: {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/sdk-node': '0.301.0',
    '@opentelemetry/exporter-prometheus': '0.301.0',
    '@opentelemetry/exporter-metrics-otlp-http': '0.301.0',
    '@opentelemetry/sdk-metrics': '3.1.1',
    '@opentelemetry/sdk-trace': '3.1.1',
    '@opentelemetry/instrumentation-http': '0.301.0',
    '@opentelemetry/instrumentation-kafkajs': '0.33.0',
  },
  2: {
    '@opentelemetry/api': '1.9.1',
    '@opentelemetry/sdk-node': '0.223.0',
    '@opentelemetry/exporter-prometheus': '0.223.0',
    '@opentelemetry/exporter-metrics-otlp-http': '0.223.0',
    '@opentelemetry/sdk-metrics': '2.12.0',
    '@opentelemetry/sdk-trace-base': '2.12.0',
    '@opentelemetry/instrumentation-http': '0.223.0',
    '@opentelemetry/instrumentation-kafkajs': '0.32.0',
  },
};

/** It has the same few lines in both module systems and on both lines of OpenTelemetry: the span processor is made by hand. */
const startSdk = (instrumentation: string): string => `
  const spans = [];
  const keep = (span) => spans.push({
    name: span.name, kind: span.kind, ...span.spanContext(), attributes: span.attributes, status: span.status.code,
    scope: (span.instrumentationScope ?? span.instrumentationLibrary).name,
    parentSpanId: span.parentSpanContext?.spanId ?? null,
  });
  const exporter = new metrics.InMemoryMetricExporter(metrics.AggregationTemporality.CUMULATIVE);
  const reader = new metrics.PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const instrumentation = ${instrumentation};
  const sdk = new NodeSDK({
    serviceName: 'orders',
    metricReaders: [reader],
    logRecordProcessors: [],
    instrumentations: [instrumentation],
    spanProcessors: [{ onStart() {}, onEnd: keep, forceFlush: async () => {}, shutdown: async () => {} }],
  });
  sdk.start();
  const seen = async () => {
    await reader.forceFlush();
    const found = {};
    const durations = {};
    for (const { scopeMetrics } of exporter.getMetrics())
      for (const { scope, metrics } of scopeMetrics) for (const { descriptor, dataPoints } of metrics) {
        if (scope.name === 'svc') found[descriptor.name] = dataPoints.map(({ attributes, value }) => ({ attributes, value }));
        if (descriptor.name === 'db.client.operation.duration') durations[scope.name] = dataPoints.reduce((sum, { value }) => sum + value.count, 0);
      }
    return { spans, metrics: found, durations };
  };
  globalThis.sdkSeen = seen;
  globalThis.sdkInstrumentation = instrumentation;`;

/**
 * An OpenTelemetry SDK as an application starts it, in a file of its own that each case imports, requires or preloads, with one
 * instrumentation: `className` of the package, made by the text `instrumentation`. `more`: further ones, classes by their package.
 */
export function sdkFiles(
  className: string,
  packageName: string,
  instrumentation: string,
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const classes = Object.entries({ [packageName]: className, ...more });
  const made = Object.values(more).map((name) => `new ${name}()`);
  const all = made.length === 0 ? instrumentation : `[${[instrumentation, ...made].join(', ')}]`;
  return {
    'sdk.mjs': `
    import { NodeSDK } from '@opentelemetry/sdk-node';
    import * as metrics from '@opentelemetry/sdk-metrics';
    ${classes.map(([from, name]) => `import { ${name} } from '${from}';`).join('\n')}
    ${startSdk(all)}`,
    'sdk.cjs': `
    const { NodeSDK } = require('@opentelemetry/sdk-node');
    const metrics = require('@opentelemetry/sdk-metrics');
    ${classes.map(([from, name]) => `const { ${name} } = require('${from}');`).join('\n')}
    ${startSdk(all)}`,
  };
}

export const otelFiles: Readonly<Record<string, string>> = sdkFiles(
  'KafkaJsInstrumentation',
  '@opentelemetry/instrumentation-kafkajs',
  'new KafkaJsInstrumentation()',
);

/** Errors of the SDK on standard error, no exporter that calls home. */
export const otelEnvironment: Readonly<Record<string, string>> = {
  OTEL_LOG_LEVEL: 'error',
  OTEL_TRACES_EXPORTER: 'none',
  OTEL_METRICS_EXPORTER: 'none',
  OTEL_LOGS_EXPORTER: 'none',
};

/** What the SDK of the application saw: `await globalThis.sdkSeen()`. */
export interface SdkSeen {
  readonly spans: readonly SeenSpan[];
  /** Metrics of svc by name. */
  readonly metrics: Readonly<
    Record<string, readonly { attributes: Record<string, string>; value: unknown }[]>
  >;
  /** How many queries each instrumentation has measured (`db.client.operation.duration`). */
  readonly durations: Readonly<Record<string, number>>;
}

export interface SeenSpan {
  readonly name: string;
  /** 3 is PRODUCER. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 0 unset, 2 error. */
  readonly status: number;
  /** Name of the instrumentation scope. */
  readonly scope: string;
}

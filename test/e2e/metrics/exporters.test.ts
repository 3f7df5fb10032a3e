import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { observedInstruments, publishDuration } from '../../../src/observe/metrics.ts';
import { type Family, parsePrometheus } from '../../observe/prometheus/prometheus-text.ts';
import { type OtlpReceiver, type ReceivedMetric, startOtlpReceiver } from '../../support/otlp-receiver.ts';
import { telemetryApp } from '../support/apps.ts';
import { otelEnvironment } from '../support/otel-app.ts';
import { type RunningApp, startApp } from '../support/start-app.ts';
import { linesUnderTest } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

/** As docs/metrics.md has it, with the name that an OpenTelemetry Collector gives the histogram. */
const duration = `${publishDuration.name}.seconds`;

/** The SDK of an application with two exporters, the same on both lines. */
const telemetry = `
  import { createServer } from 'node:http';
  import { NodeSDK } from '@opentelemetry/sdk-node';
  import { PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
  import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
  import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
  const prometheus = new PrometheusExporter({ preventServerStart: true });
  const otlp = new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter({ url: process.env.OTLP_URL }), exportIntervalMillis: 300, exportTimeoutMillis: 300 });
  const views = [{ instrumentName: '${publishDuration.name}', name: '${duration}' }];
  new NodeSDK({ serviceName: 'orders', views, metricReaders: [prometheus, otlp], logRecordProcessors: [], spanProcessors: [] }).start();
  const server = createServer((request, response) => prometheus.getMetricsRequestHandler(request, response));
  server.listen(0, '127.0.0.1', () => console.log('exporter on ' + server.address().port));`;

const main = `
  function order(id) { return { id }; }
  for (const id of [1, 2, 3]) order(id);
  setTimeout(() => {}, 60_000);`;

/** Series of a family by event type, whatever other labels they have. */
const countOf = (family: Family | undefined, suffix = ''): number | undefined =>
  Object.entries(family?.series ?? {}).find(
    ([series]) => series.includes('"eventType":"ORDERED"') && series.includes(`${suffix}{`),
  )?.[1];

const withoutScope = (family: Family): Family['series'] =>
  Object.fromEntries(
    Object.entries(family.series).map(([series, value]) => [
      series.replace(/"otel_scope_name":"svc","otel_scope_version":"[^"]+",?/, '').replace(/,\}$/, '}'),
      value,
    ]),
  );

for (const line of await linesUnderTest()) {
  describe(`svc's metrics in the exporters of an application: OpenTelemetry ${line}.x`, function () {
    this.timeout(180_000);
    let app: RunningApp;
    let receiver: OtlpReceiver;
    /** What the exporter of the application answers, and what svc does. */
    let urls: { readonly exporter: string; readonly svc: string };

    before(async () => {
      receiver = await startOtlpReceiver();
      app = await startApp({
        app: await telemetryApp(line),
        timeoutMs: 90_000,
        args: ['--import', './telemetry.mjs', '--import', 'svc/register', 'main.mjs'],
        env: { ...otelEnvironment, OTLP_URL: `${receiver.endpoint}/v1/metrics`, SVC_BROKER_CLIENT: 'memory' },
        files: {
          'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }]),
          'telemetry.mjs': telemetry,
          'main.mjs': main,
        },
      });
      const [, port] = await app.waitFor(/exporter on (\d+)/);
      const [, svc] = await app.waitFor(/management on (http:\S+)/);
      urls = { exporter: `http://127.0.0.1:${port}/metrics`, svc: svc as string };
    });
    after(async () => {
      await app?.kill('SIGKILL');
      await receiver?.close();
    });

    const scrape = async (url: string): Promise<Map<string, Family>> => {
      const text = await (await fetch(url)).text();
      // OpenMetrics has units; the text format, in which its exporter answers, takes them for remarks.
      return parsePrometheus(`${text.replace(/^# UNIT .*\n/gm, '').trimEnd()}\n`);
    };
    async function until<T>(read: () => Promise<T> | T, isThere: (found: T) => boolean): Promise<T> {
      for (let tries = 0; ; tries++) {
        const found = await read();
        if (isThere(found)) return found;
        assert.ok(tries < 100, JSON.stringify(found));
        await sleep(100);
      }
    }
    const publishedBy = (url: string) =>
      until(
        () => scrape(url),
        (families) => countOf(families.get('svc_events_published_total')) === 3,
      );

    it('its Prometheus exporter has every family that svc answers, with the same numbers', async () => {
      const [theirs, own] = [await publishedBy(urls.exporter), await publishedBy(urls.svc)];
      for (const [name, { type, series }] of own) {
        // Of an outbox, and there is none.
        if (name === 'target_info' || Object.keys(series).length === 0) continue;
        const other = theirs.get(name);
        assert.equal(other?.type, type, name);
        assert.deepEqual(withoutScope(other), series, name);
      }
      assert.equal(countOf(own.get(publishDuration.prometheusName), '_count'), 3);
      assert.ok(JSON.stringify([...theirs]).includes('\\"otel_scope_name\\":\\"svc\\"'));
    });

    it('OTLP carries every instrument: counters that only grow, gauges, and the histogram with its bounds', async () => {
      const count = (metric: ReceivedMetric | undefined): number =>
        Number(metric?.sum?.dataPoints[0]?.asInt ?? metric?.sum?.dataPoints[0]?.asDouble);
      const metrics = await until(
        () => receiver.metricsOf('svc'),
        (found) => count(found['svc.events.published']) === 3 && duration in found,
      );
      const isWithout = /^svc\.(consumer\.|outbox\.|dlq\.waiting|backup\.oldest\.timestamp)/;
      const names = observedInstruments.filter(({ name }) => !isWithout.test(name));
      for (const instrument of names) {
        const { name: first, alias, prometheusAlias } = instrument;
        // An alias that Prometheus cannot tell apart is not exported.
        const isApart = alias !== undefined && prometheusAlias !== undefined;
        for (const name of isApart ? [first, alias] : [first]) {
          const metric = metrics[name];
          assert.equal(metric?.unit, instrument.unit, name);
          const isGauge = instrument.kind === 'gauge';
          assert.equal(metric?.gauge !== undefined, isGauge, name);
          if (!isGauge) assert.equal(metric?.sum?.isMonotonic, instrument.kind === 'counter', name);
        }
      }
      const [point] = metrics[duration]?.histogram?.dataPoints ?? [];
      assert.equal(Number(point?.count), 3);
      assert.equal(point?.explicitBounds?.[0], 0.005);
      assert.deepEqual(point?.attributes, [{ key: 'eventType', value: { stringValue: 'ORDERED' } }]);
    });
  });
}

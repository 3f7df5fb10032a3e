// prometheus/: the metrics of svc as a text for Prometheus, made by OpenTelemetry's own serializer
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import type { MetricData } from '@opentelemetry/sdk-metrics';
import type { MetricSources } from '../metrics.ts';
import { collectMetrics, type MeasuredService } from './collect-metrics.ts';

/** With a thousand event types the text takes some 50 ms: the application goes on in between. */
const longestTurnMs = 5;
/** About a millisecond, of the histogram. */
const pointsAtOnce = 100;

/** All metrics in the Prometheus text format, read from the ledger now; `target_info` says whose they are, where that is known. */
export async function renderMetrics(sources: MetricSources, service: MeasuredService): Promise<string> {
  const { resource, scopeMetrics } = collectMetrics(sources, service);
  const pieces = scopeMetrics.flatMap(({ scope, metrics }) =>
    metrics.flatMap(piecesOf).map(({ piece, isFirst }) => ({ isFirst, scope, metrics: [piece] })),
  );
  let withTargetInfo = service.name !== null || service.version !== null;
  let text = '';
  let began = performance.now();
  for (const { isFirst, ...one } of pieces) {
    const written = serializerOf({ withTargetInfo }).serialize({ resource, scopeMetrics: [one] });
    text += isFirst ? written : written.replace(/^(?:#.*\n)+/, '');
    withTargetInfo = false;
    if (performance.now() - began < longestTurnMs) continue;
    await nextTurn();
    began = performance.now();
  }
  return text;
}

/** No labels of the scope: counters have the labels of the specification, and no others. */
function serializerOf({ withTargetInfo }: { readonly withTargetInfo: boolean }): PrometheusSerializer {
  return new PrometheusSerializer(undefined, false, undefined, !withTargetInfo, true);
}

/** One metric as several, whose texts in a row are its own, but for the lines about it. */
function piecesOf(metric: MetricData): { readonly piece: MetricData; readonly isFirst: boolean }[] {
  const count = Math.max(1, Math.ceil(metric.dataPoints.length / pointsAtOnce));
  return Array.from({ length: count }, (_, index) => {
    const dataPoints = metric.dataPoints.slice(index * pointsAtOnce, (index + 1) * pointsAtOnce);
    return { piece: { ...metric, dataPoints } as MetricData, isFirst: index === 0 };
  });
}

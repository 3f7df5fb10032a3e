// prometheus/: the metrics of svc as a text for Prometheus, made by OpenTelemetry's own serializer
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import type { MetricSources } from '../metrics.ts';
import { collectMetrics, type MeasuredService } from './collect-metrics.ts';

/** All metrics in the Prometheus text format, read from the ledger now; `target_info` says whose they are, where that is known. */
export function renderMetrics(sources: MetricSources, service: MeasuredService): string {
  const isUnknown = service.name === null && service.version === null;
  // No labels of the scope: counters have the labels of the specification, and no others.
  const serializer = new PrometheusSerializer(undefined, false, undefined, isUnknown, true);
  return serializer.serialize(collectMetrics(sources, service));
}

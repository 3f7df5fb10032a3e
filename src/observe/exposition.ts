import { durationBoundsSeconds, type Histogram } from './durations.ts';
import { observedInstruments, publishDuration } from './instruments.ts';
import type { Attributes, MetricSources } from './metrics.ts';

/** Content type of `renderMetrics`: the Prometheus text format. */
export const expositionContentType = 'text/plain; version=0.0.4; charset=utf-8';

/** All metrics in the Prometheus text format, read from the ledger now. */
export function renderMetrics(sources: MetricSources): string {
  const lines: string[] = [];
  for (const instrument of observedInstruments) {
    const type = instrument.kind === 'counter' ? 'counter' : 'gauge';
    for (const name of [instrument.prometheusName, instrument.prometheusAlias]) {
      if (name === undefined) continue;
      header(lines, name, type, instrument.description);
      instrument.read(sources, (value, attributes) =>
        lines.push(`${name}${braces(labels(attributes))} ${value}`),
      );
    }
  }
  header(lines, publishDuration.prometheusName, 'histogram', publishDuration.description);
  for (const { attributes, histogram } of sources.durations.rows()) {
    renderHistogram(lines, publishDuration.prometheusName, labels(attributes), histogram);
  }
  lines.push('');
  return lines.join('\n');
}

function renderHistogram(lines: string[], name: string, label: string, histogram: Histogram): void {
  let cumulative = 0;
  histogram.buckets.forEach((count, index) => {
    cumulative += count;
    lines.push(`${name}_bucket{${label},le="${durationBoundsSeconds[index] ?? '+Inf'}"} ${cumulative}`);
  });
  lines.push(`${name}_sum{${label}} ${histogram.sum}`, `${name}_count{${label}} ${histogram.count}`);
}

function header(lines: string[], name: string, type: string, description: string): void {
  lines.push(`# HELP ${name} ${description}`, `# TYPE ${name} ${type}`);
}

function labels(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([key, value]) => `${key}="${escapeLabel(value)}"`)
    .join(',');
}

function braces(label: string): string {
  return label === '' ? '' : `{${label}}`;
}

/** The format knows these three escapes; every other character stands for itself. */
function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

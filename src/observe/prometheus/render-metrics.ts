// prometheus/: the metrics of svc as a text for Prometheus, in the words of OpenTelemetry's own serializer
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { type DataPoint, DataPointType, type Histogram, type MetricData } from '@opentelemetry/sdk-metrics';
import { nextTurn } from '../../ground/builtins.ts';
import type { MetricSources } from '../metrics.ts';
import { collectMetrics, type MeasuredService } from './collect-metrics.ts';

/** With a thousand event types the text takes longer: the application goes on in between. */
const longestTurnMs = 5;
const pointsAtOnce = 100;

/** All metrics in the Prometheus text format, read from the ledger now; `target_info` says whose they are, where that is known. */
export async function renderMetrics(sources: MetricSources, service: MeasuredService): Promise<string> {
  const { resource, scopeMetrics } = collectMetrics(sources, service);
  const withTargetInfo = service.name !== null || service.version !== null;
  const first = serializerOf({ withTargetInfo }).serialize({ resource, scopeMetrics: [] });
  let text = withTargetInfo ? first.replace(/^# no registered metrics\n?/m, '') : '';
  let began = performance.now();
  for (const metric of scopeMetrics.flatMap(({ metrics }) => metrics)) {
    text += headOf(metric);
    for (let from = 0; from < metric.dataPoints.length; from += pointsAtOnce) {
      text += linesOf(metric, from, from + pointsAtOnce);
      if (performance.now() - began < longestTurnMs) continue;
      await nextTurn();
      began = performance.now();
    }
  }
  return text;
}

/** No labels of the scope: counters have the labels of the specification, and no others. */
function serializerOf({ withTargetInfo }: { readonly withTargetInfo: boolean }): PrometheusSerializer {
  return new PrometheusSerializer(undefined, false, undefined, !withTargetInfo, true);
}

/** What the serializer writes, which takes it two microseconds a line: heads and labels stay as they are, and only values change. */
function serialized(metric: MetricData): string {
  const scopeMetrics = [{ scope: { name: 'svc' }, metrics: [metric] }];
  return serializerOf({ withTargetInfo: false }).serialize({ resource: noResource, scopeMetrics });
}

const noResource = { attributes: {} } as Parameters<PrometheusSerializer['serialize']>[0]['resource'];

const heads = new Map<string, string>();

function headOf(metric: MetricData): string {
  const { name } = metric.descriptor;
  const known = heads.get(name);
  if (known !== undefined) return known;
  const [head = ''] = /^(?:#.*\n)*/.exec(serialized({ ...metric, dataPoints: [] } as MetricData)) ?? [];
  heads.set(name, head);
  return head;
}

/** As `{eventType="A"}`, by the attributes. A process has as many as it has series of one family, and few more. */
const labels = new Map<string, string>();
const mostLabels = 10_000;
/** The same by the object, which the ledger keeps for each event type. */
const labelsByObject = new WeakMap<object, string>();

function labelsOf({ attributes }: Pick<DataPoint<number>, 'attributes'>): string {
  const known = labelsByObject.get(attributes);
  if (known !== undefined) return known;
  const text = labelsByKey(attributes);
  labelsByObject.set(attributes, text);
  return text;
}

function labelsByKey(attributes: DataPoint<number>['attributes']): string {
  const key = JSON.stringify(attributes);
  const known = labels.get(key);
  if (known !== undefined) return known;
  const point = { attributes, value: 0, startTime: noTime, endTime: noTime };
  const line = serialized({ ...anyGauge, dataPoints: [point] })
    .trimEnd()
    .split('\n')
    .at(-1) as string;
  const text = line.slice(1, line.lastIndexOf(' '));
  if (labels.size >= mostLabels) labels.clear();
  labels.set(key, text);
  return text;
}

const noTime: [number, number] = [0, 0];
const anyGauge = {
  descriptor: { name: 'x', description: '', unit: '', valueType: 1 },
  ...{ aggregationTemporality: 1, dataPointType: DataPointType.GAUGE as const },
};

function linesOf(metric: MetricData, from: number, to: number): string {
  const { name } = metric.descriptor;
  let text = '';
  if (metric.dataPointType === DataPointType.HISTOGRAM)
    for (const point of metric.dataPoints.slice(from, to)) text += histogramLines(name, point);
  else
    for (const point of metric.dataPoints.slice(from, to))
      text += `${name}${labelsOf(point)} ${written(point.value as number)}\n`;
  return text;
}

/** Buckets of Prometheus count what is below their bound, those of OpenTelemetry what is between two. */
function histogramLines(name: string, point: DataPoint<Histogram>): string {
  const { count, sum = 0, buckets } = point.value;
  const own = labelsOf(point);
  const begin = `${name}_bucket${own === '' ? '{' : `${own.slice(0, -1)},`}le="`;
  let text = `${name}_count${own} ${count}\n${name}_sum${own} ${written(sum)}\n`;
  let below = 0;
  const { boundaries, counts } = buckets;
  for (let index = 0; index < counts.length; index++) {
    below += counts[index] as number;
    text += `${begin}${index < boundaries.length ? boundaries[index] : '+Inf'}"} ${below}\n`;
  }
  return text;
}

function written(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}

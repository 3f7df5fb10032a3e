import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics';
import { nextTurn } from '../ground/builtins.ts';
import { version } from '../ground/version.ts';
import {
  type MetricSources,
  type ObservedInstrument,
  observedInstruments,
  publishDuration,
} from './metrics.ts';
import { durationBoundsSeconds } from './outcomes.ts';

// the metrics of svc in the Prometheus text format, as OpenTelemetry's own serializer writes them

/** A thousand event types take longer; the event loop gets a turn in between. */
const longestTurnMs = 5;
const pointsAtOnce = 100;

/** All metrics in the Prometheus text format, read from the ledger now; `target_info` names the service, if known. */
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

/** Without scope labels: counters have exactly the labels of the specification. */
function serializerOf({ withTargetInfo }: { readonly withTargetInfo: boolean }): PrometheusSerializer {
  return new PrometheusSerializer(undefined, false, undefined, !withTargetInfo, true);
}

/** The serializer takes two microseconds per line. Heads and labels are cached; only values change. */
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

/** `{eventType="A"}` by attributes: about as many as there are series of one family. */
const labels = new Map<string, string>();
const maxLabels = 10_000;
/** The same by object, which the ledger keeps per event type. */
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
  if (labels.size >= maxLabels) labels.clear();
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

/** Buckets of Prometheus are cumulative, those of OpenTelemetry are not. */
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

/** The service of the metrics. Unknown values are `null`. */
export interface MeasuredService {
  readonly name: string | null;
  readonly version: string | null;
}

/** Every instrument with its current values, in the form in which OpenTelemetry's SDK passes metrics to an exporter. */
function collectMetrics(sources: MetricSources, service: MeasuredService): ResourceMetrics {
  const observed = observedInstruments.flatMap((instrument) =>
    [instrument.prometheusName, instrument.prometheusAlias]
      .filter((name) => name !== undefined)
      .map((name) => observedMetric(name, instrument, sources)),
  );
  return {
    resource: resourceOf(service),
    scopeMetrics: [{ scope: { name: 'svc', version }, metrics: [...observed, durationMetric(sources)] }],
  };
}

/** The serializer reads only the attributes of a resource. */
function resourceOf(service: MeasuredService): ResourceMetrics['resource'] {
  const attributes = {
    ...(service.name !== null && { 'service.name': service.name }),
    ...(service.version !== null && { 'service.version': service.version }),
  };
  return { attributes } as ResourceMetrics['resource'];
}

function observedMetric(name: string, instrument: ObservedInstrument, sources: MetricSources): MetricData {
  const dataPoints: DataPoint<number>[] = [];
  instrument.read(sources, (value, attributes) => dataPoints.push({ value, attributes, ...times }));
  const metric = { descriptor: descriptorOf(name, instrument), ...cumulative, dataPoints };
  return instrument.kind === 'gauge'
    ? { ...metric, dataPointType: DataPointType.GAUGE }
    : { ...metric, dataPointType: DataPointType.SUM, isMonotonic: instrument.kind === 'counter' };
}

function durationMetric({ durations }: MetricSources): MetricData {
  const dataPoints = [...durations.rows()].map(({ attributes, histogram }) => ({
    attributes,
    ...times,
    value: {
      count: histogram.count,
      sum: histogram.sum,
      buckets: { boundaries: [...durationBoundsSeconds], counts: [...histogram.buckets] },
    },
  }));
  return {
    descriptor: descriptorOf(publishDuration.prometheusName, publishDuration),
    ...cumulative,
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints,
  };
}

/** The Prometheus name already contains the unit. The serializer would add a line for a separate unit. */
function descriptorOf(
  name: string,
  { description }: { readonly description: string },
): MetricData['descriptor'] {
  return { name, description, unit: '', valueType: double };
}

/** The text contains no times: Prometheus uses the time of the scrape. */
const times: Pick<DataPoint<number>, 'startTime' | 'endTime'> = { startTime: [0, 0], endTime: [0, 0] };
const cumulative = { aggregationTemporality: AggregationTemporality.CUMULATIVE };
/** `ValueType.DOUBLE` of the API, which may be missing. */
const double = 1;

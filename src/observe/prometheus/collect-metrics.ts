import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics';
import { version } from '../../ground/version.ts';
import { durationBoundsSeconds } from '../durations.ts';
import { observedInstruments, publishDuration } from '../instruments.ts';
import type { MetricSources, ObservedInstrument } from '../metrics.ts';

/** Whose metrics these are. What is not known is `null`. */
export interface MeasuredService {
  readonly name: string | null;
  readonly version: string | null;
}

/** Every instrument with its values of now, in the shape in which the SDK of OpenTelemetry hands metrics to an exporter. */
export function collectMetrics(sources: MetricSources, service: MeasuredService): ResourceMetrics {
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

/** A serializer reads the attributes, and nothing else of a resource. */
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

/**
 * The name is that of Prometheus, which has the unit in it where it has one: the serializer adds none, and would write a line
 * for a unit that stands apart.
 */
function descriptorOf(
  name: string,
  { description }: { readonly description: string },
): MetricData['descriptor'] {
  return { name, description, unit: '', valueType: double };
}

/** The text has no times: Prometheus knows when it scraped. */
const times: Pick<DataPoint<number>, 'startTime' | 'endTime'> = { startTime: [0, 0], endTime: [0, 0] };
const cumulative = { aggregationTemporality: AggregationTemporality.CUMULATIVE };
/** `ValueType.DOUBLE` of the API, which need not be there. */
const double = 1;

import { observedInstruments, publishDuration } from '../observe/instruments.ts';
import type { DurationInstrument, MetricSources, ObservedInstrument } from '../observe/metrics.ts';
import type {
  BrokerView,
  DlqView,
  FlatMetricsReport,
  Measurement,
  MetricDescriptor,
  MetricsReport,
  OutboxSummary,
} from './metrics-shapes.ts';
import type { Totals } from './monitoring-state.ts';

/** What both shapes are made of, read at one moment. */
export interface ReportParts {
  readonly sources: MetricSources;
  /** Where there is one. */
  readonly outbox: OutboxSummary | undefined;
  readonly traffic: BrokerView | undefined;
  readonly nowMs: number;
}

export function metricsReport({ sources, outbox, traffic }: ReportParts): MetricsReport {
  const { published, failed, dlq } = totalsOf(sources);
  const totalBackupFiles = sources.backup().files;
  return {
    summary: {
      totalEventsPublished: published + failed,
      successfulEvents: published,
      failedEvents: failed,
      successRate: percentage(published, published + failed),
      totalDlqEvents: dlq,
      totalBrokerErrors: total('svc.broker.errors.total', sources),
      totalBackupFiles,
      ...(outbox && summaryOf(outbox)),
    },
    events: { published: publishedByType(sources), publishDuration: durationsByType(sources) },
    dlq: {
      totalDlqEvents: dlq,
      totalBackupFiles,
      recentDlqEvents: recentDlqOf(sources),
    },
    broker: traffic ?? { connectionCount: null, inFlightRequests: null, requestLatencyAvg: null },
  };
}

export function flatMetricsReport({ sources, outbox, nowMs }: ReportParts): FlatMetricsReport {
  const { published, failed, dlq } = totalsOf(sources);
  const relayedMsAgo = outbox?.timeSinceLastSuccessMs ?? null;
  const times = [sources.lastPublishedMs(), relayedMsAgo === null ? null : nowMs - relayedMsAgo];
  const known = times.filter((time) => time !== null);
  return {
    eventsPublished: published,
    eventsFailed: failed,
    dlqEvents: dlq,
    outboxPending: outbox?.totalPending ?? null,
    lastPublishTime: known.length === 0 ? null : new Date(Math.max(...known)).toISOString(),
  };
}

export function recentDlqOf(sources: MetricSources): readonly DlqView[] {
  return sources.recentDlqEvents().map(({ eventType, failureReason, timestampMs }) => ({
    ...{ eventType, failureReason, timestamp: new Date(timestampMs).toISOString() },
  }));
}

/** For the state of the last minutes. */
export function countsOf(sources: MetricSources): Totals {
  const histograms = [...sources.durations.rows()].map(({ histogram }) => histogram);
  return {
    ...totalsOf(sources),
    brokerErrors: total('svc.broker.errors.total', sources),
    sends: histograms.reduce((sum, { count }) => sum + count, 0),
    sendSeconds: histograms.reduce((sum, each) => sum + each.sum, 0),
  };
}

/** Events that were sent or given up here: those of calls, and those that the relay took from the outbox. */
function totalsOf(sources: MetricSources): Record<'published' | 'failed' | 'dlq', number> {
  return {
    published: total('svc.events.published', sources),
    failed: total('svc.events.failed', sources),
    dlq: total('svc.events.dlq', sources),
  };
}

/** Rounded down: 100.00% says that none failed, and so it is while there is none. */
function percentage(part: number, whole: number): string {
  const hundredths = whole === 0 ? 100_00 : Math.floor((part * 100_00) / whole);
  return `${(hundredths / 100).toFixed(2)}%`;
}

function summaryOf(outbox: OutboxSummary): OutboxSummary {
  const { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs, totalPending, totalFailed } =
    outbox;
  return { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs, totalPending, totalFailed };
}

/** What an instrument has for each event type. */
export function eventsByType(name: string, sources: MetricSources): Map<string, number> {
  const found = new Map<string, number>();
  instrumentOf(name).read(sources, (value, { eventType = '' }) => found.set(eventType, value));
  return found;
}

function publishedByType(sources: MetricSources): MetricDescriptor[] {
  const instrument = instrumentOf('svc.events.published');
  const descriptors: MetricDescriptor[] = [];
  instrument.read(sources, (value, { eventType = '' }) =>
    descriptors.push(describe(instrument, eventType, [{ statistic: 'COUNT', value }])),
  );
  return descriptors;
}

function durationsByType({ durations }: MetricSources): MetricDescriptor[] {
  return [...durations.rows()].map(({ attributes, histogram: { count, sum, max } }) =>
    describe(publishDuration, attributes.eventType, [
      { statistic: 'COUNT', value: count },
      { statistic: 'MEAN', value: count === 0 ? 0 : sum / count },
      { statistic: 'MAX', value: max },
    ]),
  );
}

/** Names for who does not read UCUM. */
const units: Readonly<Record<string, string>> = { '{event}': 'events', s: 'seconds' };

function describe(
  { name, description, unit }: ObservedInstrument | DurationInstrument,
  eventType: string,
  measurements: readonly Measurement[],
): MetricDescriptor {
  return { name, description, baseUnit: units[unit] ?? unit, eventType, measurements };
}

/** Over all its attributes: the very numbers of `/metrics`. */
function total(name: string, sources: MetricSources): number {
  let sum = 0;
  instrumentOf(name).read(sources, (value) => {
    sum += value;
  });
  return sum;
}

function instrumentOf(name: string): ObservedInstrument {
  return observedInstruments.find((instrument) => instrument.name === name) as ObservedInstrument;
}

import { hostname } from 'node:os';
import { environmentName } from '../context/source.ts';
import { clock } from '../ground/clock.ts';
import { type CircuitState, circuitStates, type KeyHealth } from '../ground/management.ts';
import {
  type BackupState,
  type BufferState,
  type CaptureTarget,
  type MetricSources,
  type ObservedInstrument,
  observedInstruments,
  publishDuration,
} from '../observe/metrics.ts';
import { isolate } from '../observe/otel-api.ts';
import { durationBoundsSeconds, type EventCounts } from '../observe/outcomes.ts';
import type {
  BrokerView,
  Controls,
  DeadLetters,
  Health,
  HealthDetails,
  Info,
  MetricDescriptor,
  MetricsReport,
  OutboxHealth,
  OutboxSummary,
  RecoveryRun,
} from './controls.ts';
import { watchHealth } from './health.ts';

// the answers of the endpoints that only read: health, both reports and the console page, from the counts of this process.

/** What this process tells of itself. */
export interface ViewParts {
  /** Connections, and the last throttling by a broker; `untilMs` is on the monotonic clock. */
  readonly broker: {
    /** Rejects with a one-line message if the cluster is unreachable. */
    describe(): Promise<Pick<HealthDetails, 'clusterId' | 'nodeCount'>>;
    traffic?(): BrokerView | undefined;
    heldBack?(): { readonly untilMs: number; readonly message: string } | undefined;
  };
  /** The broker has been asked since `sinceMs` and does not answer. */
  readonly onAway: (message: string, sinceMs: number) => void;
  /** Why events are lost or refused; one line. */
  readonly problem: () => string | undefined;
  /** A warning that does not make health DOWN; one line. */
  readonly remark?: () => string | undefined;
  /** All events are refused at present. */
  readonly refusesAll?: () => boolean;
  readonly keys: () => readonly KeyHealth[];
  readonly sources: MetricSources;
  readonly info: Info;
  /** None of these rejects. */
  readonly outbox:
    | { health(): Promise<OutboxHealth>; isReady(): boolean; standsStill(): Promise<boolean> }
    | undefined;
}

/** Open pages share one answer for this long. Each page asks every two seconds. */
const pageFreshMs = 900;

export function createViews(
  parts: ViewParts,
  topics: Pick<HealthDetails, 'topic' | 'dlqTopic'>,
  runs: ConsoleParts['runs'],
) {
  const { broker, sources, info, outbox } = parts;
  const trends = createTrends(() => totalsByType(sources));
  const { health, healthOfPage, samples, close } = watchHealthOf(parts, topics, trends.step);
  let shown: { readonly facts: object; readonly untilMs: number } | undefined;
  const reportParts = async (): Promise<ReportParts> => ({
    ...{ sources, outbox: await outbox?.health(), traffic: broker.traffic?.(), nowMs: clock.now() },
  });
  return {
    health,
    isReady: async (): Promise<boolean> =>
      outbox?.isReady() !== false && parts.refusesAll?.() !== true && (await outbox?.standsStill()) !== true,
    /** The serializer is loaded at the first scrape, because many applications are never scraped here. */
    async metricsText(): Promise<string> {
      const { renderMetrics } = await import('../observe/prometheus.ts');
      return renderMetrics(sources, info.service);
    },
    metricsReport: async () => metricsReport(await reportParts()),
    flatMetricsReport: async () => flatMetricsReport(await reportParts()),
    async console(afterMs: number): Promise<object> {
      const [known, nowMs] = [await healthOfPage(), clock.monotonic()];
      if (shown === undefined || nowMs >= shown.untilMs) {
        const facts = consoleFacts({
          ...{ sources, info, runs, health: known, nowMs: clock.now() },
          ...{ environment: environmentName() ?? null, traffic: broker.traffic?.() },
        });
        shown = { facts, untilMs: nowMs + pageFreshMs };
      }
      const history = historyOf(samples(), afterMs);
      const isNews = afterMs === 0 || history.atMs.length > 0;
      return { ...shown.facts, history, trends: isNews ? trends.all() : [] };
    },
    info: () => info,
    targets: sources.captureTargets,
    deadLetters: (): DeadLetters => ({ waiting: sources.dlqWaiting(), recent: recentDlqOf(sources) }),
    close,
  };
}

function watchHealthOf(
  { broker, onAway, problem, remark, keys, sources, outbox }: ViewParts,
  topics: Pick<HealthDetails, 'topic' | 'dlqTopic'>,
  onStep: () => void,
) {
  let reached = false;
  return watchHealth({
    probe: async () => {
      const state = await isolate(() => broker.describe());
      reached = true;
      return state;
    },
    known: () => {
      const ids = sources.worker();
      const { tooLarge } = sources.backup();
      return {
        ...{ brokerProducerInitialized: reached, ...topics },
        ...(ids && { worker: { id: ids.workerId, source: ids.source } }),
        ...(tooLarge > 0 && { tooLargeEvents: tooLarge }),
      };
    },
    totals: () => countsOf(sources),
    sample: () => ({ ...countsOf(sources), ...levelsOf(sources, clock.now()) }),
    onStep,
    heldBack: () => broker.heldBack?.(),
    backupProblem: () => sources.backup().problem,
    alert: problem,
    remark,
    keys,
    targets: sources.captureTargets,
    outbox: outbox?.health,
    onAway,
  });
}

interface ConsoleParts {
  readonly sources: MetricSources;
  readonly health: Health;
  readonly info: Info;
  readonly environment: string | null;
  readonly traffic: BrokerView | undefined;
  readonly runs: Pick<Controls, 'deadLetterRecovery' | 'backupDrain'>;
  readonly nowMs: number;
}

/** The page except its history and the actions, read at one moment; never rejects. */
function consoleFacts(parts: ConsoleParts): Omit<ConsoleDocument, 'actions' | 'history' | 'trends'> {
  const { sources, health, info, environment, traffic, runs, nowMs } = parts;
  const types = typesOf(sources);
  const ofOutbox = sources.outbox?.circuit() ?? null;
  return {
    atMs: nowMs,
    process: {
      ...info,
      ...{ host: hostname(), pid: process.pid, node: process.versions.node, environment },
      upSeconds: Math.floor(process.uptime()),
    },
    health,
    counts: outcomesOf(sources),
    queue: sources.buffer(),
    backup: sources.backup(),
    breakers: {
      broker: circuitStates[sources.circuit()] as CircuitState,
      outbox: ofOutbox === null ? null : (circuitStates[ofOutbox] as CircuitState),
    },
    connections: traffic ?? { connectionCount: null, inFlightRequests: null, requestLatencyAvg: null },
    types: types.slice(0, maxTypes),
    typeCount: types.length,
    targets: sources.captureTargets(),
    deadLetters: { waiting: sources.dlqWaiting(), recent: recentDlqOf(sources) },
    runs: { deadLetters: runs.deadLetterRecovery.latest(), backup: runs.backupDrain.latest() },
  };
}

function outcomesOf({ ledger }: MetricSources): ConsoleDocument['counts'] {
  const { brokerErrors: _, ...counts } = ledger.snapshot();
  return counts;
}

function typesOf(sources: MetricSources): TypeFacts[] {
  const published = eventsByType('svc.events.published', sources);
  const failed = eventsByType('svc.events.failed', sources);
  const deadLetters = eventsByType('svc.events.dlq', sources);
  const durations = new Map(
    [...sources.durations.rows()].map(({ attributes, histogram }) => [attributes.eventType, histogram]),
  );
  const types = [...new Set([...published.keys(), ...failed.keys()])].map((eventType) => {
    const took = durations.get(eventType);
    const isKnown = took !== undefined && took.count > 0;
    return {
      eventType,
      published: published.get(eventType) ?? 0,
      failed: failed.get(eventType) ?? 0,
      deadLetters: deadLetters.get(eventType) ?? 0,
      meanMs: isKnown ? Math.round((took.sum / took.count) * 10_000) / 10 : null,
      maxMs: isKnown ? Math.round(took.max * 10_000) / 10 : null,
    };
  });
  return types.sort((one, other) => other.published + other.failed - one.published - one.failed);
}

/** The content of the console page, in one answer. Holds no event content. */
export interface ConsoleDocument {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly process: ProcessFacts;
  readonly health: Health;
  /** Outcomes of the calls since the start, and the counts of the relay of this process. */
  readonly counts: EventCounts;
  readonly queue: BufferState;
  readonly backup: BackupState;
  readonly breakers: { readonly broker: CircuitState; readonly outbox: CircuitState | null };
  readonly connections: BrokerView;
  /** The busiest, {@link maxTypes} at most. */
  readonly types: readonly TypeFacts[];
  readonly typeCount: number;
  /** Of the busiest types; empty if the page has them already. */
  readonly trends: readonly Trend[];
  readonly targets: readonly CaptureTarget[];
  readonly deadLetters: DeadLetters;
  readonly history: History;
  readonly runs: { readonly deadLetters: LatestRuns; readonly backup: LatestRuns };
  readonly actions: readonly string[];
}

interface ProcessFacts extends Info {
  readonly host: string;
  readonly pid: number;
  readonly node: string;
  /** `deployment.environment.name` of OpenTelemetry's resource, or `NODE_ENV`. */
  readonly environment: string | null;
  readonly upSeconds: number;
}

/** Events of one type, those of the relay included. */
interface TypeFacts {
  readonly eventType: string;
  readonly published: number;
  readonly failed: number;
  readonly deadLetters: number;
  readonly meanMs: number | null;
  readonly maxMs: number | null;
}

/** Events of a type within each step of ten seconds, for ten minutes at most. */
interface Trend {
  readonly eventType: string;
  readonly events: readonly number[];
}

interface LatestRuns {
  readonly run: RecoveryRun | null;
  readonly dryRun: RecoveryRun | null;
}

/** Counts within each step of ten seconds, one column per series. */
export interface History {
  /** End of the step, as Unix time in milliseconds. */
  readonly atMs: readonly number[];
  readonly seconds: readonly number[];
  readonly published: readonly number[];
  readonly failed: readonly number[];
  /** `null`: nothing was sent. */
  readonly meanMs: readonly (number | null)[];
  /** The 95th percentile, estimated from the buckets of the histogram. */
  readonly p95Ms: readonly (number | null)[];
  /** Events in memory, in the local backup, and in the outbox. */
  readonly queued: readonly number[];
  readonly backup: readonly number[];
  readonly outbox: readonly (number | null)[];
  /** Breaker for the broker: index in `circuitStates`. */
  readonly circuit: readonly number[];
}

const maxTypes = 100;

/** Sampled every ten seconds, beside the counts for the thresholds. */
interface Levels {
  /** Unix time in milliseconds. */
  readonly wallMs: number;
  readonly queued: number;
  readonly backup: number;
  readonly outbox: number | null;
  readonly circuit: number;
  /** Of the durations of all event types, as in the histogram. */
  readonly buckets: readonly number[];
}

function levelsOf(sources: MetricSources, wallMs: number): Levels {
  const buckets: number[] = new Array(durationBoundsSeconds.length + 1).fill(0);
  for (const { histogram } of sources.durations.rows())
    for (const [index, count] of histogram.buckets.entries()) (buckets[index] as number) += count;
  return {
    ...{ wallMs, buckets, circuit: sources.circuit() },
    queued: sources.buffer().events,
    backup: sources.backup().events,
    outbox: sources.outbox?.pending() ?? null,
  };
}

interface Sample {
  readonly atMs: number;
  readonly totals: ReturnType<typeof countsOf> & Levels;
}

function historyOf(samples: readonly Sample[], afterMs: number): History {
  const steps = samples
    .slice(1)
    .map(({ atMs, totals: now }, index) => {
      const before = samples[index] as Sample;
      return { now, seconds: (atMs - before.atMs) / 1_000, before: before.totals };
    })
    .filter(({ now }) => now.wallMs > afterMs);
  const column = <T>(value: (step: (typeof steps)[number]) => T): T[] => steps.map(value);
  return {
    atMs: column(({ now }) => now.wallMs),
    seconds: column(({ seconds }) => Math.round(seconds * 10) / 10),
    published: column(({ now, before }) => now.published - before.published),
    failed: column(({ now, before }) => now.failed - before.failed),
    meanMs: column(({ now, before }) => {
      const sends = now.sends - before.sends;
      return sends === 0 ? null : tenth(((now.sendSeconds - before.sendSeconds) * 1_000) / sends);
    }),
    p95Ms: column(({ now, before }) =>
      percentileMs(
        now.buckets.map((count, index) => count - (before.buckets[index] as number)),
        0.95,
      ),
    ),
    queued: column(({ now }) => now.queued),
    backup: column(({ now }) => now.backup),
    outbox: column(({ now }) => now.outbox),
    circuit: column(({ now }) => now.circuit),
  };
}

/** As in Prometheus: linear within a bucket; values above the last bound count as that bound. */
function percentileMs(buckets: readonly number[], share: number): number | null {
  const all = buckets.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let left = all * share;
  for (const [index, upper] of durationBoundsSeconds.entries()) {
    const count = buckets[index] as number;
    const lower = durationBoundsSeconds[index - 1] ?? 0;
    if (count > 0 && left <= count) return tenth((lower + ((upper - lower) * left) / count) * 1_000);
    left -= count;
  }
  return (durationBoundsSeconds.at(-1) as number) * 1_000;
}

const tenth = (value: number): number => Math.round(value * 10) / 10;

/** The number of types, the busiest since the start. */
const maxTrends = 50;
/** Ten minutes. */
const maxSteps = 60;

interface Trends {
  step(): void;
  all(): readonly Trend[];
}

/** The events of the busiest types within each of the last steps. A type that joins them starts without history. */
function createTrends(read: () => ReadonlyMap<string, number>): Trends {
  interface Seen {
    readonly total: number;
    readonly events: readonly number[];
  }
  const busiest = (): [string, number][] =>
    [...read()].sort(([, one], [, other]) => other - one).slice(0, maxTrends);
  let seen = new Map<string, Seen>(busiest().map(([type, total]) => [type, { total, events: [] }]));
  return {
    step() {
      seen = new Map(
        busiest().map(([type, total]) => {
          const before = seen.get(type);
          const events =
            before === undefined ? [] : [...before.events, total - before.total].slice(-maxSteps);
          return [type, { total, events }];
        }),
      );
    },
    all: () => [...seen].map(([eventType, { events }]) => ({ eventType, events })),
  };
}

/** Events that reached their topic, and events that did not. */
function totalsByType(sources: MetricSources): Map<string, number> {
  const totals = eventsByType('svc.events.published', sources);
  for (const [type, failed] of eventsByType('svc.events.failed', sources))
    totals.set(type, (totals.get(type) ?? 0) + failed);
  return totals;
}

/** The input of both shapes, read at one moment. */
interface ReportParts {
  readonly sources: MetricSources;
  /** Missing without an outbox. */
  readonly outbox: OutboxSummary | undefined;
  readonly traffic: BrokerView | undefined;
  readonly nowMs: number;
}

function metricsReport({ sources, outbox, traffic }: ReportParts): MetricsReport {
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

function flatMetricsReport({ sources, outbox, nowMs }: ReportParts) {
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

function recentDlqOf(sources: MetricSources): DeadLetters['recent'] {
  return sources.recentDlqEvents().map(({ eventType, failureReason, timestampMs }) => ({
    ...{ eventType, failureReason, timestamp: new Date(timestampMs).toISOString() },
  }));
}

function countsOf(sources: MetricSources) {
  const histograms = [...sources.durations.rows()].map(({ histogram }) => histogram);
  return {
    ...totalsOf(sources),
    brokerErrors: total('svc.broker.errors.total', sources),
    sends: histograms.reduce((sum, { count }) => sum + count, 0),
    sendSeconds: histograms.reduce((sum, each) => sum + each.sum, 0),
  };
}

/** Events that were sent or given up here: those of calls, and those of the relay. */
function totalsOf(sources: MetricSources): Record<'published' | 'failed' | 'dlq', number> {
  return {
    published: total('svc.events.published', sources),
    failed: total('svc.events.failed', sources),
    dlq: total('svc.events.dlq', sources),
  };
}

/** Rounded down: 100.00% means that no event failed. Also 100.00% without events. */
function percentage(part: number, whole: number): string {
  const hundredths = whole === 0 ? 100_00 : Math.floor((part * 100_00) / whole);
  return `${(hundredths / 100).toFixed(2)}%`;
}

function summaryOf(outbox: OutboxSummary): OutboxSummary {
  const { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs, totalPending, totalFailed } =
    outbox;
  return { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs, totalPending, totalFailed };
}

function eventsByType(name: string, sources: MetricSources): Map<string, number> {
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

const units: Readonly<Record<string, string>> = { '{event}': 'events', s: 'seconds' };

function describe(
  { name, description, unit }: Pick<ObservedInstrument, 'name' | 'description' | 'unit'>,
  eventType: string,
  measurements: MetricDescriptor['measurements'],
): MetricDescriptor {
  return { name, description, baseUnit: units[unit] ?? unit, eventType, measurements };
}

/** The sum over all attributes: the same numbers as `/metrics`. */
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

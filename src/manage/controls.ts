import type { Clock } from '../ground/clock.ts';
import type { CircuitState } from '../ground/management.ts';
import {
  type CaptureTarget,
  type DurationInstrument,
  type MetricSources,
  type ObservedInstrument,
  observedInstruments,
  publishDuration,
} from '../observe/metrics.ts';
import { targetStates } from '../observe/outcomes.ts';

/** The body of `GET /actuator/health/svc`. Unknown values are `null`. */
export interface Health {
  readonly status: 'UP' | 'DOWN';
  readonly details: HealthDetails;
}

export interface HealthDetails {
  /** By the monitoring thresholds, over the last five minutes. Does not affect `status`. */
  readonly state?: MonitoringState;
  /** The exceeded thresholds, the worst first, one line each: value, threshold, remedy. Missing if no threshold is exceeded. */
  readonly findings?: readonly string[];
  readonly brokerProducerInitialized: boolean;
  readonly clusterId: string | null;
  readonly nodeCount: number | null;
  readonly topic: string | null;
  readonly dlqTopic: string | null;
  /** Worker id of event ids, and its source: `configured`, `kafka`, `host` or `derived`. */
  readonly worker?: { readonly id: number; readonly source: string };
  /** Events in `too-large/` of the local backup; missing for 0. */
  readonly tooLargeEvents?: number;
  /** Keys of marked fields; missing if nothing is encrypted. */
  readonly keys?: readonly KeyHealth[];
  /** Missing without an outbox. */
  readonly outbox?: OutboxHealth;
  /** Age of this answer in milliseconds, if a request to the broker is in flight. */
  readonly ageMs?: number;
  /** One line: no event is lost, but an operator must act, as a topic refuses its events. */
  readonly warning?: string;
  /** One line, present when DOWN. */
  readonly error?: string;
}

/** A key that configured rules or marks need. DOWN: events with such fields are refused. */
export interface KeyHealth {
  /** `configuration`, `aws-kms`, `vault-transit`, … */
  readonly provider: string;
  /** The name that rules use. */
  readonly keyId: string;
  readonly status: 'UP' | 'DOWN';
  /** One line: why the key is DOWN; for an UP key, why it cannot be replaced at present. */
  readonly error?: string;
}

/** The outbox, with the publisher part of the metrics summary. `null`: unknown, or no relay runs in this process. */
export interface OutboxHealth extends OutboxSummary {
  /**
   * DOWN makes the whole health DOWN. Its database is unreachable or not the application's, or its table contradicts the settings. Or
   * rows wait while the relay of this process is stuck.
   */
  readonly status: 'UP' | 'DOWN';
  /** Age of the oldest waiting event, in milliseconds. */
  readonly oldestPendingMs: number | null;
  /** The relay of this process is idle: 64 others have all shards. It checks every minute. */
  readonly standsBy?: true;
  /** One line, present when DOWN. */
  readonly error?: string;
  /**
   * One line: no event is lost, but an operator must act. No relay sends the rows, a topic refuses them, or rows wait behind a
   * FAILED one.
   */
  readonly warning?: string;
}

/** The outbox statistics object of the specification. */
interface OutboxStatistics {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  readonly avgProcessingTimeMs: number;
}

/** The replay result object of the specification. */
interface OutboxReplay {
  readonly since: string;
  readonly limit: number;
  readonly total: number;
  readonly success: number;
  readonly failed: number;
  readonly failedEventIds: readonly string[];
  /** Where it ended before the last row: pass it as `after` to continue. */
  readonly after?: number;
}

export interface OutboxReplayRequest {
  readonly since: string;
  readonly limit?: number;
  readonly after?: number;
  /** Only events of this type, or for this topic. */
  readonly type?: string;
  readonly topic?: string;
  /** Only counts the rows. */
  readonly dryRun?: boolean;
}

/** Methods that query the database reject with an `SvcError` whose message is one line for an operator. */
export interface OutboxControls {
  statistics(): Promise<OutboxStatistics>;
  /** One replay and one dry run at a time; others are refused with SVC_OUTBOX_REPLAY_BUSY. */
  replay(request: OutboxReplayRequest, by: string): Promise<OutboxReplay>;
}

/** The request of `POST /actuator/svc/dlq/recover` and `/backup/drain`. Times are milliseconds since the epoch. */
export interface RecoveryAsk {
  /** Which backup. Default: the files of this machine if there are any, else the bucket. */
  readonly from?: 'local' | 's3' | undefined;
  readonly types?: readonly string[] | undefined;
  /** Only events for these topics, which need not be configured. */
  readonly topics?: readonly string[] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** For events without a known topic. */
  readonly to?: string | undefined;
  /** Events per second. Default: as fast as the brokers accept them. */
  readonly rate?: number | undefined;
  /** Maximum number of events. Default: all. */
  readonly limit?: number | undefined;
  /** Counts, and sends nothing. */
  readonly dryRun: boolean;
}

/**
 * `DONE`: all events were read; those that could not be sent are in `failed`. `LIMIT`: the requested number was sent.
 * `STOPPED`: the process ended, or the broker is unavailable. `FAILED`: reading failed. The same request continues where a run
 * ended.
 */
export const runStates = ['RUNNING', 'DONE', 'LIMIT', 'STOPPED', 'FAILED'] as const;

/** A recovery of this process, running or ended. Holds no event content. */
export interface RecoveryRun {
  readonly id: string;
  readonly state: (typeof runStates)[number];
  readonly dryRun: boolean;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly endedAt: string | null;
  /** All stored events, without filters; `null`: unknown. */
  readonly total: number | null;
  /** Events that the filters accepted, and those that they skipped. */
  readonly matched: number;
  readonly skipped: number;
  readonly sent: number;
  readonly failed: number;
  /** Invalid or incomplete entries. */
  readonly unreadable: number;
  /** Why events were not sent, one entry per reason. */
  readonly problems: readonly { readonly reason: string; readonly events: number }[];
  /** One line, for a STOPPED or FAILED run. */
  readonly error: string | null;
}

/** The recoveries of one kind: one run and one dry run at a time. */
export interface RecoveryControls {
  /** Continues in the background. `undefined`: one is running. */
  start(ask: RecoveryAsk, by: string): RecoveryRun | undefined;
  /** The latest of each; `null`: none yet. */
  latest(): { readonly run: RecoveryRun | null; readonly dryRun: RecoveryRun | null };
  /** Why recovery is impossible, in one line. */
  missing(ask: Pick<RecoveryAsk, 'from'>): string | undefined;
}

/** The body of `GET /actuator/svc/dlq`. Holds no event content. */
export interface DeadLetters {
  /** In the topic, as last counted; `null`: unknown. */
  readonly waiting: number | null;
  /** Sent by this process since its start, newest first. */
  readonly recent: readonly DlqView[];
}

export const mostDeadLetters = 200;

/** The query of `GET /actuator/svc/dlq?source=topic`. Times are milliseconds since the epoch. */
export interface DeadLetterAsk {
  readonly types?: readonly string[] | undefined;
  /** Class names or codes of causes. */
  readonly reasons?: readonly string[] | undefined;
  readonly topics?: readonly string[] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit: number;
}

/** A dead letter of the topic, without the content and key of its event. Unknown values are `null`. */
export interface StoredDeadLetter {
  readonly eventId: string;
  readonly eventType: string | null;
  /** Class name or code of the cause. */
  readonly failureReason: string | null;
  readonly originalTopic: string | null;
  /** Time of the failure, as ISO 8601. */
  readonly timestamp: string;
  readonly partition: number;
  readonly offset: number;
}

export interface DeadLettersOfTopic {
  readonly topic: string;
  /** The requested ones, newest first. Recovered ones stay in the topic. */
  readonly deadLetters: readonly StoredDeadLetter[];
  /** Records read from the end of the topic; `unreadable` ones are not dead letters. */
  readonly read: number;
  readonly unreadable: number;
  /** `false`: there may be older ones. */
  readonly complete: boolean;
}

/** Reads the dead letter topic, one request at a time. */
export interface DeadLetterTopic {
  /** Why the topic cannot be read, in one line. */
  missing(): string | undefined;
  /** `undefined`: another request is in progress. Rejects with a one-line `SvcError` if the broker does not answer soon. */
  newest(ask: DeadLetterAsk): Promise<DeadLettersOfTopic> | undefined;
}

export interface BreakerReset {
  readonly before: CircuitState;
  readonly after: CircuitState;
}

/** The result of `POST /actuator/svc/circuit-breaker/reset`. `null`: this process has no such breaker. */
export interface BreakerResets {
  /** The breaker for direct sends. */
  readonly broker: BreakerReset | null;
  /** The breaker of this process's relay. */
  readonly outbox: BreakerReset | null;
}

/** The body of `GET /actuator/info`. */
export interface Info {
  readonly service: { readonly name: string | null; readonly version: string | null };
  readonly svc: { readonly version: string };
}

/**
 * PORT: everything that the management server may see of svc; `start/` implements it.
 * - `health`, `isReady` and the reports never reject, and answer within a second whatever the broker and the database do.
 * - `info`, `targets`, `deadLetters` and `resetBreakers` are synchronous and cheap; `metricsText` loads its serializer at the
 * first call.
 * - Nothing here ever holds payload values.
 * - `by` names the caller in the log line of an action.
 */
export interface Controls {
  health(): Promise<Health>;
  /** Whether this instance works, regardless of the broker. */
  isReady(): Promise<boolean>;
  /** The Prometheus text format. */
  metricsText(): Promise<string>;
  metricsReport(): Promise<MetricsReport>;
  flatMetricsReport(): Promise<FlatMetricsReport>;
  /** The content of the console page; its history starts after this Unix time in milliseconds. See `console.ts`. */
  console(afterMs: number): Promise<object>;
  info(): Info;
  targets(): readonly CaptureTarget[];
  /** The newest dead letters of this process, and the number in the topic. */
  deadLetters(): DeadLetters;
  readonly deadLetterTopic: DeadLetterTopic;
  resetBreakers(by: string): BreakerResets;
  /** Clears cached encryption keys and fetches them again; resolves when they are available, or after five seconds. */
  invalidateKeys(by: string): Promise<{ readonly keys: readonly KeyHealth[] }>;
  readonly deadLetterRecovery: RecoveryControls;
  readonly backupDrain: RecoveryControls;
  /** Missing without an outbox. */
  readonly outbox?: OutboxControls | undefined;
}

type MonitoringState = 'HEALTHY' | 'WARNING' | 'CRITICAL';

interface Finding {
  readonly state: Exclude<MonitoringState, 'HEALTHY'>;
  /** One line: value, threshold and remedy. */
  readonly text: string;
}

export interface Measured {
  readonly recent: Totals;
  /** Dead letters of the last minute: whether their number rises. */
  readonly dlqOfLastMinute: number;
  readonly outbox: OutboxSummary | undefined;
  /** Why the local backup cannot be used; one line. */
  readonly backupProblem?: string | null | undefined;
  readonly targets?: readonly CaptureTarget[];
}

type Rule = (measured: Measured) => Finding | undefined;

/** A mean of fewer sends is meaningless: the first event of a process waits for its connections. */
const leastSends = 10;
/** Targets named in one finding; GET /actuator/svc/targets has all. */
const mostShown = 3;
const lately = 'in the last five minutes';

const rules: readonly Rule[] = [
  ({ backupProblem }) =>
    backupProblem ? { state: 'WARNING', text: `the next outage loses events: ${backupProblem}` } : undefined,
  ({ recent: { published, failed } }) => {
    if (failed === 0) return undefined;
    const rate = (published * 100) / (published + failed);
    const threshold = [95, 99, 99.5].find((least) => rate < least);
    if (threshold === undefined) return undefined;
    const text = `${cut(rate)} % of the events ${lately} reached their topics, under ${threshold} %: see svc_events_failed_total for the event types, and the log for the reason`;
    return { state: threshold === 95 ? 'CRITICAL' : 'WARNING', text };
  },
  ({ recent: { dlq }, dlqOfLastMinute }) =>
    over(dlq, 0, dlqOfLastMinute > 0 ? 10 : Number.POSITIVE_INFINITY, (threshold) =>
      threshold === 0
        ? `${dlq} dead letters ${lately}. See the reasons: npx --no svc dlq list. Send them: npx --no svc dlq recover`
        : `${dlq} dead letters ${lately}, over ${threshold}, and their number grows. See the reasons: npx --no svc dlq list`,
    ),
  ({ recent: { brokerErrors } }) =>
    over(
      brokerErrors,
      0,
      5,
      (threshold) => `${brokerErrors} sends failed ${lately}, over ${threshold}: see the log for the cause`,
    ),
  ({ recent: { sends, sendSeconds } }) => {
    const meanMs = sends < leastSends ? 0 : (sendSeconds * 1_000) / sends;
    return over(
      meanMs,
      100,
      500,
      (threshold) =>
        `events took ${cut(meanMs)} ms on average ${lately}, over ${threshold} ms: check the load of the brokers, and the network`,
    );
  },
  ({ outbox }) =>
    over(
      outbox?.totalPending ?? 0,
      1_000,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.totalPending} events wait in the outbox, over 1000: check that its relays run and keep up`,
    ),
  ({ outbox }) =>
    over(
      outbox?.consecutiveFailures ?? 0,
      3,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.consecutiveFailures} sends from the outbox failed in a row, over 3: check that the brokers answer`,
    ),
  ({ outbox }) =>
    outbox?.totalPending
      ? over(
          outbox.timeSinceLastSuccessMs ?? 0,
          60_000,
          Number.POSITIVE_INFINITY,
          () =>
            `nothing was sent from the outbox for ${Math.floor((outbox.timeSinceLastSuccessMs ?? 0) / 1_000)} s (over 60 s) while events wait: check that the brokers answer`,
        )
      : undefined,
  ({ targets = [] }) => {
    const silent = targets.filter(({ state }) => targetStates[state].level === 'critical');
    if (silent.length === 0) return undefined;
    const shown = silent.slice(0, mostShown).map(({ target, reason }) => `${target}: ${reason}`);
    if (silent.length > mostShown) shown.push(`and ${silent.length - mostShown} more`);
    return {
      state: 'WARNING',
      text: `${silent.length} of ${targets.length} targets make no events: ${shown.join('; ')}`,
    };
  },
];

/** All findings, the worst first. */
export function findingsOf(measured: Measured, others: readonly Finding[] = []): readonly Finding[] {
  const found = rules.map((rule) => rule(measured)).filter((finding) => finding !== undefined);
  return [...found, ...others].sort(
    (one, other) => Number(one.state === 'WARNING') - Number(other.state === 'WARNING'),
  );
}

function over(
  value: number,
  warning: number,
  critical: number,
  text: (threshold: number) => string,
): Finding | undefined {
  if (value > critical) return { state: 'CRITICAL', text: text(critical) };
  return value > warning ? { state: 'WARNING', text: text(warning) } : undefined;
}

/** Rounded down to two places, so that a value below a threshold does not read as equal to it. */
const cut = (value: number): number => Math.floor(value * 100) / 100;

/** Counters since the start. */
export interface Totals {
  readonly published: number;
  /** Events that did not reach their topic. */
  readonly failed: number;
  readonly dlq: number;
  readonly brokerErrors: number;
  /** Events that left the publisher, and their total time in it. */
  readonly sends: number;
  readonly sendSeconds: number;
}

/** Throttling is reported for a minute longer, as some quotas apply for milliseconds, again and again. */
const throttledMs = 60_000;

/** @param held the last quota response of a broker. `untilMs`: on the monotonic clock */
export function throttleFinding(
  held: { readonly untilMs: number; readonly message: string } | undefined,
  clock: Clock,
): readonly Finding[] {
  if (held === undefined || held.untilMs < clock.monotonic() - throttledMs) return [];
  return [{ state: 'WARNING', text: held.message }];
}

/** Recent counts. Totals since the start never recover from one dead letter, and a good past hides an outage. */
export interface Recent {
  /** The counts of the last `ms` milliseconds, one hour at most; accurate to ten seconds. */
  within(ms: number): Totals;
  /** Findings that do not derive from counts. */
  findings?(): readonly Finding[];
  close(): void;
}

export interface Sample<T extends Totals> {
  readonly atMs: number;
  readonly totals: T;
}

export interface RecentSamples<T extends Totals> extends Recent {
  /** The samples of the last hour, ten seconds apart, oldest first. */
  samples(): readonly Sample<T>[];
}

export const recentMs = 300_000;
const keptMs = 3_600_000;
const stepMs = 10_000;

interface Watching {
  /** Called after each sample except the first. */
  readonly onStep?: () => void;
  /** The totals alone, if the rest of a sample is slow. */
  readonly totals?: () => Totals;
  readonly findings?: () => readonly Finding[];
}

export function watchRecent<T extends Totals>(
  read: () => T,
  clock: Clock,
  { onStep, totals: readTotals = read, findings = () => [] }: Watching = {},
): RecentSamples<T> {
  let samples: Sample<T>[] = [{ atMs: clock.monotonic(), totals: read() }];
  const timer = setInterval(() => {
    const nowMs = clock.monotonic();
    samples.push({ atMs: nowMs, totals: read() });
    const begun = samples.findLastIndex(({ atMs }) => atMs <= nowMs - keptMs);
    if (begun > 0) samples = samples.slice(begun);
    onStep?.();
  }, stepMs).unref();
  return {
    within(ms) {
      const sinceMs = clock.monotonic() - ms;
      const { totals } =
        samples.findLast(({ atMs }) => atMs <= sinceMs) ?? (samples[0] as (typeof samples)[0]);
      return difference(readTotals(), totals);
    },
    findings,
    samples: () => samples,
    close: () => clearInterval(timer),
  };
}

function difference(now: Totals, before: Totals): Totals {
  return {
    published: now.published - before.published,
    failed: now.failed - before.failed,
    dlq: now.dlq - before.dlq,
    brokerErrors: now.brokerErrors - before.brokerErrors,
    sends: now.sends - before.sends,
    sendSeconds: now.sendSeconds - before.sendSeconds,
  };
}

/** A metric of one event type, as the specification describes it. */
interface MetricDescriptor {
  readonly name: string;
  readonly description: string;
  readonly baseUnit: string;
  readonly eventType: string;
  readonly measurements: readonly Measurement[];
}

interface Measurement {
  readonly statistic: 'COUNT' | 'MEAN' | 'MAX';
  readonly value: number;
}

/** The publisher of the outbox. `null`: unknown, or no relay runs in this process. */
export interface OutboxSummary {
  readonly circuitBreakerState: CircuitState | null;
  readonly consecutiveFailures: number | null;
  readonly timeSinceLastSuccessMs: number | null;
  /** As last counted, some seconds ago. */
  readonly totalPending: number | null;
  readonly totalFailed: number | null;
}

/** Connections to the broker. `null`: none, or unknown. */
export interface BrokerView {
  readonly connectionCount: number | null;
  readonly inFlightRequests: number | null;
  /** Milliseconds. */
  readonly requestLatencyAvg: number | null;
}

/** `GET /actuator/svc-metrics`. */
export interface MetricsReport {
  readonly summary: {
    readonly totalEventsPublished: number;
    readonly successfulEvents: number;
    readonly failedEvents: number;
    readonly successRate: string;
    readonly totalDlqEvents: number;
    readonly totalBrokerErrors: number;
    readonly totalBackupFiles: number;
    /** Missing without an outbox. */
  } & Partial<OutboxSummary>;
  readonly events: {
    readonly published: readonly MetricDescriptor[];
    readonly publishDuration: readonly MetricDescriptor[];
  };
  readonly dlq: {
    readonly totalDlqEvents: number;
    readonly totalBackupFiles: number;
    /** Newest first. */
    readonly recentDlqEvents: readonly DlqView[];
  };
  readonly broker: BrokerView;
}

interface DlqView {
  readonly eventType: string;
  readonly failureReason: string;
  /** ISO 8601. */
  readonly timestamp: string;
}

/** `GET /actuator/svc-metrics?shape=flat`. Unknown values are `null`. */
interface FlatMetricsReport {
  readonly eventsPublished: number;
  readonly eventsFailed: number;
  readonly dlqEvents: number;
  readonly outboxPending: number | null;
  /** ISO 8601. */
  readonly lastPublishTime: string | null;
}

/** The input of both shapes, read at one moment. */
export interface ReportParts {
  readonly sources: MetricSources;
  /** Missing without an outbox. */
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

export function countsOf(sources: MetricSources): Totals {
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

const units: Readonly<Record<string, string>> = { '{event}': 'events', s: 'seconds' };

function describe(
  { name, description, unit }: ObservedInstrument | DurationInstrument,
  eventType: string,
  measurements: readonly Measurement[],
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

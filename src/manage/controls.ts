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

/** State of the connection to the broker, as `GET /actuator/health/svc` shows it. What is not known is `null`. */
export interface Health {
  readonly status: 'UP' | 'DOWN';
  readonly details: HealthDetails;
}

export interface HealthDetails {
  /** By the thresholds of monitoring, over the last five minutes. It makes nothing DOWN. */
  readonly state?: MonitoringState;
  /** The thresholds that are crossed, the worst first, a line each: the number, the threshold, what to do. Absent where there are none. */
  readonly findings?: readonly string[];
  readonly brokerProducerInitialized: boolean;
  readonly clusterId: string | null;
  readonly nodeCount: number | null;
  /** Default topic and dead letter topic as configured. */
  readonly topic: string | null;
  readonly dlqTopic: string | null;
  /** Worker id in event ids, and how it was come by: `configured`, `kafka`, `host` or `derived`. */
  readonly worker?: { readonly id: number; readonly source: string };
  /** Events in `too-large/` of the local backup; absent where there are none. */
  readonly tooLargeEvents?: number;
  /** Keys of marked fields; absent where nothing is encrypted. */
  readonly keys?: readonly KeyHealth[];
  /** The outbox, where there is one. */
  readonly outbox?: OutboxHealth;
  /** Present where the broker is being asked and has not answered yet: how old the answer is that this is from. */
  readonly ageMs?: number;
  /** One line: no event is lost, and somebody has to look, as a topic refuses its events. */
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
  /** One line: why it is DOWN; of one that is UP, why it cannot be replaced at the moment. */
  readonly error?: string;
}

/** The outbox, with the publisher's part of the metrics summary. `null`: not known, or no relay runs in this process. */
export interface OutboxHealth extends OutboxSummary {
  /**
   * DOWN: its database cannot be reached, or is not that of the application, or its table contradicts the settings, or rows wait and
   * the relay of this process stands still. That makes the whole DOWN.
   */
  readonly status: 'UP' | 'DOWN';
  /** Age of the oldest event that waits. */
  readonly oldestPendingMs: number | null;
  /** The relay of this process is not needed: 64 others have all shards. It looks every minute whether it is. */
  readonly standsBy?: true;
  /** One line, present when DOWN. */
  readonly error?: string;
  /** One line: no event is lost, and somebody has to look, as nobody sends the rows, a topic refuses them, or some wait behind one that is FAILED. */
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
  /** Where it ended before the last row: what to give as `after` to go on. */
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

/** What is asked of the database rejects with an `SvcError` whose message is one line for an operator. */
export interface OutboxControls {
  statistics(): Promise<OutboxStatistics>;
  /** One at a time, and one dry run beside it: another one is refused with SVC_OUTBOX_REPLAY_BUSY. */
  replay(request: OutboxReplayRequest, by: string): Promise<OutboxReplay>;
}

/** What `POST /actuator/svc/dlq/recover` and `/backup/drain` are asked for. Times are milliseconds since the epoch. */
export interface RecoveryAsk {
  /** Of the backup. Default: the files of this machine where there are some, else the bucket. */
  readonly from?: 'local' | 's3' | undefined;
  readonly types?: readonly string[] | undefined;
  /** Only events that are meant for these; they may be topics that the configuration does not have. */
  readonly topics?: readonly string[] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** For events whose own topic is not known. */
  readonly to?: string | undefined;
  /** Events a second. Default: as fast as the brokers take them. */
  readonly rate?: number | undefined;
  /** Events at most. Default: all. */
  readonly limit?: number | undefined;
  /** Looks, and sends nothing. */
  readonly dryRun: boolean;
}

/**
 * `DONE`: all was looked at; what could not be sent is in `failed`. `LIMIT`: so many as were asked for. `STOPPED`: the process ended,
 * or the broker is away. `FAILED`: it could not be read. The same request goes on where a run has ended.
 */
export const runStates = ['RUNNING', 'DONE', 'LIMIT', 'STOPPED', 'FAILED'] as const;

/** A recovery that runs in this process, or has ended. Nothing of what an event holds. */
export interface RecoveryRun {
  readonly id: string;
  readonly state: (typeof runStates)[number];
  readonly dryRun: boolean;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly endedAt: string | null;
  /** Events that lie there, filters aside; `null`: not known. */
  readonly total: number | null;
  /** Of those that were looked at: accepted by the filters, and left out by them. */
  readonly matched: number;
  readonly skipped: number;
  readonly sent: number;
  /** Accepted and not sent: they stay where they are. */
  readonly failed: number;
  /** What lies there and is no event, or is being written. */
  readonly unreadable: number;
  /** Why events are not sent, each reason once. */
  readonly problems: readonly { readonly reason: string; readonly events: number }[];
  /** One line, of a run that is STOPPED or FAILED. */
  readonly error: string | null;
}

/** The recoveries of one kind. One run at a time, and one dry run beside it. */
export interface RecoveryControls {
  /** It goes on whether anybody waits for it or not. `undefined`: one is running. */
  start(ask: RecoveryAsk, by: string): RecoveryRun | undefined;
  /** The latest of each; `null`: there was none. */
  latest(): { readonly run: RecoveryRun | null; readonly dryRun: RecoveryRun | null };
  /** Why there is none at all, one line. */
  missing(ask: Pick<RecoveryAsk, 'from'>): string | undefined;
}

/** What `GET /actuator/svc/dlq` shows: nothing of what an event holds. */
export interface DeadLetters {
  /** In the topic, as last counted; `null`: not known. */
  readonly waiting: number | null;
  /** Sent by this process since its start, the newest first. */
  readonly recent: readonly DlqView[];
}

/** What `GET /actuator/svc/dlq?source=topic` is asked for. Times are milliseconds since the epoch. */
export interface DeadLetterAsk {
  readonly types?: readonly string[] | undefined;
  /** Class names or codes of causes. */
  readonly reasons?: readonly string[] | undefined;
  /** Those that events were meant for. */
  readonly topics?: readonly string[] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit: number;
}

/** A dead letter as it stands in its topic: nothing of what the event holds, nor its key. What is not known is `null`. */
export interface StoredDeadLetter {
  readonly eventId: string;
  readonly eventType: string | null;
  /** Class name or code of the cause. */
  readonly failureReason: string | null;
  readonly originalTopic: string | null;
  /** When it failed, as ISO 8601. */
  readonly timestamp: string;
  readonly partition: number;
  readonly offset: number;
}

export interface DeadLettersOfTopic {
  readonly topic: string;
  /** The newest that were asked for, the newest first. They stay in the topic when a recovery has sent them. */
  readonly deadLetters: readonly StoredDeadLetter[];
  /** Records that were looked at, from the newest on, and those of them that are no dead letters. */
  readonly read: number;
  readonly unreadable: number;
  /** `false`: there may be older ones. */
  readonly complete: boolean;
}

/** Reads the dead letter topic itself, one question at a time. */
export interface DeadLetterTopic {
  /** Why there is none to read, one line. */
  missing(): string | undefined;
  /** `undefined`: another question is being answered. Rejects with an `SvcError`, in one line, where the broker does not answer soon. */
  newest(ask: DeadLetterAsk): Promise<DeadLettersOfTopic> | undefined;
}

/** A circuit breaker that was reset. */
export interface BreakerReset {
  readonly before: CircuitState;
  readonly after: CircuitState;
}

/** What `POST /actuator/svc/circuit-breaker/reset` has done. `null`: there is no such breaker in this process. */
export interface BreakerResets {
  /** In front of what is sent directly. */
  readonly broker: BreakerReset | null;
  /** In front of what the relay of this process sends. */
  readonly outbox: BreakerReset | null;
}

/** What `GET /actuator/info` shows. */
export interface Info {
  readonly service: { readonly name: string | null; readonly version: string | null };
  readonly svc: { readonly version: string };
}

/**
 * PORT: all that the management server may see of svc. `start.ts` implements it.
 *
 * - `health`, `isReady` and the reports never reject and answer within a second whatever the broker and the database do.
 * - `info`, `targets`, `deadLetters` and `resetBreakers` are synchronous and cheap; `metricsText` loads its serializer when it is asked first.
 * - Nothing here ever holds payload values.
 * - `by` says who asks, in the words of the log line that an action leaves.
 */
export interface Controls {
  health(): Promise<Health>;
  /** Whether this instance does its work, whatever the broker does. */
  isReady(): Promise<boolean>;
  /** The Prometheus text format. */
  metricsText(): Promise<string>;
  metricsReport(): Promise<MetricsReport>;
  flatMetricsReport(): Promise<FlatMetricsReport>;
  /** What the page for people shows, of its history what came after this time (Unix, in milliseconds): `console.ts`. */
  console(afterMs: number): Promise<object>;
  info(): Info;
  targets(): readonly CaptureTarget[];
  /** Dead letters: the newest that this process has sent, and how many wait. */
  deadLetters(): DeadLetters;
  readonly deadLetterTopic: DeadLetterTopic;
  resetBreakers(by: string): BreakerResets;
  /** Forgets cached encryption keys and asks for new ones; resolves when they are there, or after five seconds. */
  invalidateKeys(by: string): Promise<{ readonly keys: readonly KeyHealth[] }>;
  readonly deadLetterRecovery: RecoveryControls;
  readonly backupDrain: RecoveryControls;
  /** Where there is an outbox. */
  readonly outbox?: OutboxControls | undefined;
}

type MonitoringState = 'HEALTHY' | 'WARNING' | 'CRITICAL';

/** A threshold of the specification that is crossed. */
interface Finding {
  readonly state: Exclude<MonitoringState, 'HEALTHY'>;
  /** One line: what was measured, the threshold, and what to do. */
  readonly text: string;
}

/** What is looked at: counts of the last five minutes, and the outbox as it is now. */
export interface Measured {
  readonly recent: Totals;
  /** Dead letters of the last minute: their number rises. */
  readonly dlqOfLastMinute: number;
  readonly outbox: OutboxSummary | undefined;
  /** Why the local backup cannot be used; one line. */
  readonly backupProblem?: string | null | undefined;
  /** As they are now. */
  readonly targets?: readonly CaptureTarget[];
}

type Rule = (measured: Measured) => Finding | undefined;

/** A mean of less than so many says nothing: the first event of a process waits for its connections. */
const leastSends = 10;
/** Of targets that make no events: GET /actuator/svc/targets has all of them. */
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

/** What is crossed, and what else was found, the worst first. */
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

/** Rounded down, to two places: what is under a threshold does not read as if it were not. */
const cut = (value: number): number => Math.floor(value * 100) / 100;

/** Counts that only grow. */
export interface Totals {
  readonly published: number;
  /** Those that did not get to their topic. */
  readonly failed: number;
  readonly dlq: number;
  readonly brokerErrors: number;
  /** Events that the publisher has had, and the seconds that it had them for, all together. */
  readonly sends: number;
  readonly sendSeconds: number;
}

/** A minute after a broker has held events back it is still worth a look: some quotas do so for milliseconds, again and again. */
const throttledMs = 60_000;

/** @param held what a broker has said last of its quotas. `untilMs`: on the monotonic clock */
export function throttleFinding(
  held: { readonly untilMs: number; readonly message: string } | undefined,
  clock: Clock,
): readonly Finding[] {
  if (held === undefined || held.untilMs < clock.monotonic() - throttledMs) return [];
  return [{ state: 'WARNING', text: held.message }];
}

/** What was counted lately: totals since the start never recover from one dead letter, and a good past hides an outage. */
export interface Recent {
  /** Within the last so many milliseconds, an hour at most; the beginning is right to ten seconds. */
  within(ms: number): Totals;
  /** What is not a matter of counts. */
  findings?(): readonly Finding[];
  close(): void;
}

/** What was read at one moment of the monotonic clock. */
export interface Sample<T extends Totals> {
  readonly atMs: number;
  readonly totals: T;
}

export interface RecentSamples<T extends Totals> extends Recent {
  /** Those of the last hour, ten seconds apart, the oldest first. */
  samples(): readonly Sample<T>[];
}

/** What the thresholds look at. */
export const recentMs = 300_000;
const keptMs = 3_600_000;
const stepMs = 10_000;

interface Watching {
  /** Hears of each sample but the first. */
  readonly onStep?: () => void;
  /** The totals alone, where the rest of a sample takes time. */
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

/** A metric as the specification describes it, of one event type. */
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

export type { CircuitState };

/** The publisher of the outbox. `null`: not known, or no relay runs in this process. */
export interface OutboxSummary {
  readonly circuitBreakerState: CircuitState | null;
  readonly consecutiveFailures: number | null;
  readonly timeSinceLastSuccessMs: number | null;
  /** As last counted, some seconds ago. */
  readonly totalPending: number | null;
  readonly totalFailed: number | null;
}

/** Connections to the broker. `null`: there are none, or nothing is known of them. */
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
    /** The rest only where there is an outbox. */
  } & Partial<OutboxSummary>;
  readonly events: {
    readonly published: readonly MetricDescriptor[];
    readonly publishDuration: readonly MetricDescriptor[];
  };
  readonly dlq: {
    readonly totalDlqEvents: number;
    readonly totalBackupFiles: number;
    /** The newest first. */
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

/** `GET /actuator/svc-metrics?shape=flat`. What is not known is `null`. */
interface FlatMetricsReport {
  readonly eventsPublished: number;
  readonly eventsFailed: number;
  readonly dlqEvents: number;
  readonly outboxPending: number | null;
  /** ISO 8601. */
  readonly lastPublishTime: string | null;
}

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

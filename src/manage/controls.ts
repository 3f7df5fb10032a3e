import type { CircuitState, KeyHealth } from '../ground/management.ts';
import type { CaptureTarget } from '../observe/metrics.ts';

/** The body of `GET /actuator/health/svc`. Unknown values are `null`. */
export interface Health {
  readonly status: 'UP' | 'DOWN';
  readonly details: HealthDetails;
}

export interface HealthDetails {
  /** By the monitoring thresholds, over the last five minutes. Does not affect `status`. */
  readonly state?: 'HEALTHY' | 'WARNING' | 'CRITICAL';
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

export const maxDeadLetters = 200;

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
interface DeadLetterTopic {
  /** Why the topic cannot be read, in one line. */
  missing(): string | undefined;
  /** `undefined`: another request is in progress. Rejects with a one-line `SvcError` if the broker does not answer soon. */
  newest(ask: DeadLetterAsk): Promise<DeadLettersOfTopic> | undefined;
}

interface BreakerReset {
  readonly before: CircuitState;
  readonly after: CircuitState;
}

/** The result of `POST /actuator/svc/circuit-breaker/reset`. `null`: this process has no such breaker. */
interface BreakerResets {
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
  /** The content of the console page; its history starts after this Unix time in milliseconds. See `views.ts`. */
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

/** A metric of one event type, as the specification describes it. */
export interface MetricDescriptor {
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

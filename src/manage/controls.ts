import type { CaptureTarget } from '../observe/metrics.ts';
import type {
  CircuitState,
  DlqView,
  FlatMetricsReport,
  MetricsReport,
  OutboxSummary,
} from './metrics-shapes.ts';
import type { MonitoringState } from './monitoring-state.ts';

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
export interface OutboxStatistics {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  readonly avgProcessingTimeMs: number;
}

/** The replay result object of the specification. */
export interface OutboxReplay {
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
  /** What the page for people shows, of its history what came after this time (Unix, in milliseconds): `console/document.ts`. */
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

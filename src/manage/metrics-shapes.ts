import type { CircuitState } from '../ground/management.ts';
/** A metric as the specification describes it, of one event type. */
export interface MetricDescriptor {
  readonly name: string;
  readonly description: string;
  readonly baseUnit: string;
  readonly eventType: string;
  readonly measurements: readonly Measurement[];
}

export interface Measurement {
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

export interface DlqView {
  readonly eventType: string;
  readonly failureReason: string;
  /** ISO 8601. */
  readonly timestamp: string;
}

/** `GET /actuator/svc-metrics?shape=flat`. What is not known is `null`. */
export interface FlatMetricsReport {
  readonly eventsPublished: number;
  readonly eventsFailed: number;
  readonly dlqEvents: number;
  readonly outboxPending: number | null;
  /** ISO 8601. */
  readonly lastPublishTime: string | null;
}

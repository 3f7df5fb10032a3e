/** As configured under `svc.outbox.`. */
export interface RelaySettings {
  /** Rows read at once while few wait. */
  readonly batchSize: number;
  /** Longest time without a look at the table: the safety net behind `wake`. */
  readonly pollIntervalMs: number;
  /** Tries of a row after the first one, before it is FAILED. */
  readonly maxRetries: number;
  /** Whether a FAILED row lets the later ones of its aggregate pass. Default: skip. */
  readonly onFailed?: 'skip' | 'block';
  readonly sendTimeoutMs: number;
  /** Age at which PUBLISHED rows are deleted; 0: at once, when they are acknowledged. */
  readonly retentionDays: number;
  /** The same of FAILED rows; 0: they stay. */
  readonly failedRetentionDays: number;
  readonly cleanupEnabled: boolean;
  /** Batches grow while many rows wait. */
  readonly dynamicBatching: boolean;
  /** Sending stops while the broker is away. */
  readonly circuitBreaker: boolean;
  /** How long a lease of shards lasts, and another relay waits after a crash. Default: what the longest send needs. */
  readonly leaseMs?: number;
}

/** The shortest lease of shards: what another relay waits for after a crash. */
const shortestLeaseMs = 10_000;
/** A lease is taken for over this much earlier than the database says, for no clock is exact; of a short one, a tenth. */
const marginMs = 1_000;
/** What a renewal may take. */
const renewalMs = 1_000;

/** Renewed every third, a lease has to last for a send at any time. */
export function leaseMsFor({
  sendTimeoutMs,
  leaseMs,
}: Pick<RelaySettings, 'sendTimeoutMs' | 'leaseMs'>): number {
  return leaseMs ?? Math.max(shortestLeaseMs, Math.ceil(1.5 * (sendTimeoutMs + marginMs + renewalMs)));
}

export const leaseMarginMs = (leaseMs: number): number => Math.min(marginMs, leaseMs / 10);

/** A relay that stands by looks again after so long, give or take a fifth: thousands of them do not come at once. */
export const standbyMs = 60_000;
export const standbyJitter = 0.2;

/** How often a pass begins again at the first row, so that rows of late commits and retries are seen. */
export const restartMs = 1_000;
/** A pass over many rows that cannot be sent now is not repeated for so many times its length. */
export const restFactor = 4;
export const longestRestMs = 60_000;
/** After `wake`, others may come: looks are so far apart. */
export const wakeDebounceMs = 10;
/** After a failure of the database, doubling. */
export const firstStorePauseMs = 500;
export const longestStorePauseMs = 30_000;
/** Pages of rows in memory, read and not yet acknowledged, and their bytes. */
export const maxPages = 4;
export const maxBytes = 32 * 1024 * 1024;
/** Sends to several partitions at once. */
export const maxSends = 8;
/** A send that ends so much later than its time-out: the process stood still, and heard no answer meanwhile. */
export const stallMs = 1_000;
/** In one send. */
export const maxSendRecords = 500;
export const maxSendBytes = 512 * 1024;
/** Rows of the one batch that tests the cluster. */
export const probeRows = 10;
/** Rows that are deferred, which each reading leaves out by their ids. */
export const maxDeferred = 5_000;
/** Blocked aggregates that one pass remembers; with more, it ends there. */
export const maxBlocked = 200_000;

/** Waits of 1 s, 2 s, 4 s ... of a row that failed by its own fault. */
export const firstRetryMs = 1_000;
export const longestRetryMs = 60_000;
/** A topic that refuses, doubling. */
export const topicPauses = { firstMs: 5_000, longestMs: 60_000 };
/** A partition that fails, doubling. */
export const partitionPauses = { firstMs: 1_000, longestMs: 10_000 };

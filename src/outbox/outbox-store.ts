// outbox/: events in a table of the application's database, and the relay that sends them. This file is the port.

import type { OutboxRow } from './outbox-row.ts';

export const rowStatuses = ['PENDING', 'PUBLISHED', 'FAILED'] as const;
/** The only values of the status column. */
export type RowStatus = (typeof rowStatuses)[number];

export interface StoredRow extends OutboxRow {
  /** Position among all rows. Opaque: compare it only with ids of the same store, and do not calculate with it. */
  readonly id: number;
  readonly status: RowStatus;
  /** Retries caused by the row itself. */
  readonly retryCount: number;
  readonly lastError: string | null;
  /** Milliseconds until its next try, by the database's clock; 0 or less: due. */
  readonly waitMs: number;
  /** As stored. svc writes the shard of the aggregate. */
  readonly shard: number;
  /** Why it cannot become a record, if another program has written it. Contains no values of the payload. */
  readonly fault?: string | undefined;
}

export type Aggregate = Pick<OutboxRow, 'aggregateType' | 'aggregateId'>;

export interface RowFailure {
  readonly id: number;
  readonly retryCount: number;
  /** One line without values of the payload. */
  readonly lastError: string;
  /** Milliseconds until its next try; `null`: none, the row is FAILED. */
  readonly retryInMs: number | null;
}

/** Times in milliseconds; `null`: unknown. */
export interface OutboxStatistics {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  /** Age of the oldest PENDING row. */
  readonly oldestPendingMs: number | null;
  /** Mean of sent time - createdAt over PUBLISHED rows. */
  readonly avgProcessingTimeMs: number | null;
}

export interface ShardHolder {
  readonly owner: string;
  readonly shards: number;
  /** Milliseconds until the last of its leases ends, if not renewed. */
  readonly leaseMs: number;
}

/** Which programs send the rows, as far as the database shows. */
export interface Senders {
  /** PostgreSQL deletes each row in the transaction that wrote it, by the trigger of the Debezium SQL. */
  readonly erases: boolean;
  /** The table has the column that Debezium's connector needs. */
  readonly isRouted: boolean;
  /**
   * The log for a connector. PostgreSQL: `read` by a connector now; `kept` by a logical replication slot of this database; `none`:
   * no such slot. MySQL: `kept` with a binary log; its readers are unknown.
   */
  readonly log: 'none' | 'kept' | 'read';
  /** Live relays, by the database's clock. */
  readonly relays: number;
  /** Age of the PENDING row with the lowest id; `null`: none. */
  readonly oldestMs: number | null;
}

/** Properties of the application's database that svc needs before a statement is sent. */
export interface DatabaseTraits {
  /** Views whose query calls a function that may write, and tables with such a policy. Names without schema. */
  readonly writingViews: readonly string[];
  /** MySQL and MariaDB: `max_allowed_packet`. The server closes connections that send more. */
  readonly maxPacketBytes: number | undefined;
}

/** Empty: all rows. */
export interface RowFilter {
  readonly ids?: readonly number[];
  readonly statuses?: readonly RowStatus[];
  readonly eventType?: string;
  readonly topic?: string;
  readonly aggregateType?: string;
  readonly aggregateId?: string;
  /** Time of storing, in milliseconds since the epoch: from `since`, and before `until`. */
  readonly since?: number;
  readonly before?: number;
}

/** Rows to leave out. */
export interface ExceptRows {
  /** Rows with at most this id. */
  readonly upToId: number;
  readonly ids: readonly number[];
}

export interface ClaimOptions {
  /** Shards that are not given back if `owner` holds them. They count towards its share. */
  readonly keeps?: readonly number[];
  /** Leaves shards to their owners whose lease has run out, unless they are gone. Default: takes them. */
  readonly leavesExpired?: boolean;
  /** Whether an owner certainly no longer sends; its lease then counts as expired. */
  readonly isGone?: (owner: string) => boolean;
  /** Receives the database's time, in milliseconds since the epoch. */
  readonly onTime?: (nowMs: number) => void;
}

/**
 * PORT: the table of the outbox, over svc's own connection. Adapters implement it in one folder each, and pass
 * `test/contract/outbox-store.ts`.
 *
 * - It connects by itself, and reconnects after a failure. Methods reject with an `SvcError`: one line for an operator with a
 *   remedy, without values of rows or a password. Nothing waits longer than its time-out.
 * - All times are by the database's clock, so relays need no common clock.
 * - No transaction is open between two calls. Sockets and timers are unref'd.
 * - Shards: rows are spread over `shardCount` shards. An aggregate is always in the same one. A shard has at most one owner.
 */
export interface OutboxStore {
  /** As in the datasource's URL: `postgres`, `mysql`, `sqlite`. */
  readonly name: string;
  /** Checks or creates the table, as configured by `svc.outbox.initialize-schema`. */
  prepare(): Promise<void>;
  senders(): Promise<Senders>;
  traits(): Promise<DatabaseTraits>;
  /** Stores events in one new transaction. */
  insert(rows: readonly OutboxRow[]): Promise<void>;
  /**
   * Reports that `owner` is alive. Extends its leases to `leaseMs` from now. Takes free and expired shards up to its share among
   * the live owners, and gives back the excess. Returns the shards it now holds.
   */
  claim(owner: string, leaseMs: number, options?: ClaimOptions): Promise<readonly number[]>;
  /** Whether others hold all shards, and there are as many live owners as shards. Changes nothing. */
  isFull(owner: string): Promise<boolean>;
  holders(): Promise<readonly ShardHolder[]>;
  /** Releases all shards, and reports that `owner` is gone. */
  release(owner: string): Promise<void>;
  /** PENDING rows of these shards, without the excepted ones, by ascending id. Includes rows that wait for their next try. */
  pending(shards: readonly number[], except: ExceptRows, limit: number): Promise<readonly StoredRow[]>;
  /** The aggregates in these shards with FAILED rows. May contain duplicates. */
  failedAggregates(shards: readonly number[]): Promise<readonly Aggregate[]>;
  /**
   * Marks rows as PUBLISHED if no other owner has taken their shard; `keep: false` deletes them instead. Returns the ids that are no
   * longer PENDING. The others belong to another owner's shard.
   */
  ack(owner: string, ids: readonly number[], keep: boolean): Promise<readonly number[]>;
  /** Stores failures of rows whose shard no other owner has taken. */
  fail(owner: string, failures: readonly RowFailure[]): Promise<void>;
  /** The highest id; 0: no rows. */
  lastId(): Promise<number>;
  /** Whether the event's row exists, among rows after an id. */
  holds(eventId: string, afterId: number): Promise<boolean>;
  /** Number of PENDING rows, for the gauge and the batch size. */
  countPending(): Promise<number>;
  statistics(): Promise<OutboxStatistics>;
  /**
   * Scans the whole table, for an operator. Rejects with SVC_OUTBOX_STRAY_ROWS if other programs have written rows that no relay
   * finds: with an invalid shard, id or status.
   */
  checkRows(): Promise<void>;
  /** The statement that makes the table refuse such rows; `undefined`: it already does. */
  missingGuard(): Promise<string | undefined>;
  /** Rows by ascending id, after `afterId`. */
  read(filter: RowFilter, afterId: number, limit: number): Promise<readonly StoredRow[]>;
  /** Makes FAILED rows PENDING again, with all their retries. Returns their number. */
  retry(filter: RowFilter): Promise<number>;
  /** Returns the number of deleted rows. */
  discard(filter: RowFilter): Promise<number>;
  /**
   * Deletes up to `limit` rows with this status for longer than `ageMs`, unless another instance is doing so. Returns their number.
   */
  cleanup(status: 'PUBLISHED' | 'FAILED', ageMs: number, limit: number): Promise<number>;
  /** If the database supports them. */
  readonly notices?: Notices | undefined;
  /**
   * For tables partitioned by day: creates the next days' partitions, and drops those whose rows have all been PUBLISHED for longer
   * than `ageMs`. Skips whatever the application's transactions block. Returns whether the table is partitioned.
   */
  partition(ageMs: number): Promise<boolean>;
  /** The remote database's address if the last connection was unencrypted. `undefined` also before the first connection. */
  inClearTo(): Promise<string | undefined>;
  close(deadlineMs: number): Promise<void>;
}

/**
 * PORT: tells relays of rows that another process has committed, sooner than polling does. Uses svc's own connections, never the
 * application's transactions. Notices may be lost; polling finds every row.
 */
export interface Notices {
  /** Notifies all listeners about rows in these shards. Rejects with an `SvcError`. */
  send(shards: readonly number[]): Promise<void>;
  /** Listens until `stopping`, also through outages, and then resolves. `hear` without shards: notices may have been missed. */
  listen(hear: (shards?: readonly number[]) => void, stopping: AbortSignal): Promise<void>;
}

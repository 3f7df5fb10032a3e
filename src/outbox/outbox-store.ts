// outbox/: events that wait in a table of the application's database, and the relay that sends them. On top: the port.

import type { Notices } from './notices.ts';
import type { OutboxRow } from './outbox-row.ts';

export const rowStatuses = ['PENDING', 'PUBLISHED', 'FAILED'] as const;
/** What became of a row. Nothing else is ever stored. */
export type RowStatus = (typeof rowStatuses)[number];

/** A row as the relay sees it. */
export interface StoredRow extends OutboxRow {
  /** Where it stands among all rows: compared with others of the same store, and handed back to it, never calculated with. */
  readonly id: number;
  readonly status: RowStatus;
  /** Tries that failed by the row's own fault. */
  readonly retryCount: number;
  readonly lastError: string | null;
  /** Milliseconds until its next try by the database's clock; 0 or less: due. */
  readonly waitMs: number;
  /** As it is stored: that of the aggregate, in each row that svc has written. */
  readonly shard: number;
  /** Why it cannot be a record, where somebody else has written it; without a value of the payload. */
  readonly fault?: string | undefined;
}

export type Aggregate = Pick<OutboxRow, 'aggregateType' | 'aggregateId'>;

/** What became of one row that was sent in vain. */
export interface RowFailure {
  readonly id: number;
  readonly retryCount: number;
  /** One line, without a value of the payload. */
  readonly lastError: string;
  /** Milliseconds to its next try; `null`: none, its status is FAILED. */
  readonly retryInMs: number | null;
}

/** `null` where the rows do not tell. Times in milliseconds. */
export interface OutboxStatistics {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  /** Age of the oldest PENDING row. */
  readonly oldestPendingMs: number | null;
  /** Mean of the sending time - createdAt, over PUBLISHED rows. */
  readonly avgProcessingTimeMs: number | null;
}

export interface ShardHolder {
  readonly owner: string;
  readonly shards: number;
  /** Milliseconds until the last of its leases ends, where it does not renew them. */
  readonly leaseMs: number;
}

/** Who sends the rows of a table, as far as its database knows. */
export interface Senders {
  /** PostgreSQL deletes each row in the transaction that wrote it: the trigger of the SQL for Debezium. */
  readonly erases: boolean;
  /** The table has the column that Debezium's connector needs. */
  readonly isRouted: boolean;
  /**
   * The log that a connector reads. PostgreSQL: `read` by one now; `kept` for one, by a logical replication slot of this database;
   * `none`, no such slot. MySQL: `kept` with a binary log; who reads it is not known.
   */
  readonly log: 'none' | 'kept' | 'read';
  /** Relays that are alive, by the database's clock. */
  readonly relays: number;
  /** Age of the PENDING row with the lowest id; `null`: none waits. */
  readonly oldestMs: number | null;
}

/** What svc has to know of the application's database before a statement is sent there. */
export interface DatabaseTraits {
  /** Views whose query calls a function that may write, and tables with such a policy: their names without a schema. */
  readonly writingViews: readonly string[];
  /** MySQL and MariaDB: `max_allowed_packet`. A connection that sends more is closed by the server. */
  readonly maxPacketBytes: number | undefined;
}

/** Which rows; all of them where it is empty. */
export interface RowFilter {
  readonly ids?: readonly number[];
  readonly statuses?: readonly RowStatus[];
  readonly eventType?: string;
  readonly topic?: string;
  readonly aggregateType?: string;
  readonly aggregateId?: string;
  /** Milliseconds since the epoch, of the storing: from this one on, and before that one. */
  readonly since?: number;
  readonly before?: number;
}

/** Rows that are known already. */
export interface ExceptRows {
  /** Those with this id and smaller ones. */
  readonly upToId: number;
  readonly ids: readonly number[];
}

/**
 * PORT: the table of the outbox, over svc's own connection. One folder under `adapters/` implements it;
 * `test/contract/outbox-store.ts` is the suite it passes.
 *
 * - It connects by itself and again after a failure. Everything rejects with an `SvcError` whose message is one line for an
 *   operator, says what to do, and holds no value of a row and no password; nothing waits for longer than its time-out.
 * - Times are those of the database's clock: two relays need not agree on one.
 * - No transaction is open between two calls. Sockets and timers hold no process.
 * - Shards: rows are spread over `shardCount` of them, an aggregate is always in one, and one owner at most holds a shard.
 */
export interface OutboxStore {
  /** As in the datasource's URL: `postgres`, `mysql`, `sqlite`. */
  readonly name: string;
  /** Checks the table, or makes it: as `svc.outbox.initialize-schema` says. */
  prepare(): Promise<void>;
  /** Who sends the rows, as far as the database knows. */
  senders(): Promise<Senders>;
  traits(): Promise<DatabaseTraits>;
  /** Stores events in a transaction of its own, all or none. */
  insert(rows: readonly OutboxRow[]): Promise<void>;
  /**
   * Says that `owner` is alive, lengthens its leases by `leaseMs` from now, takes free and expired shards up to its share
   * among the owners that are alive, and gives back what is above it. Returns the shards it holds now. `isGone`: whether it is certain
   * that an owner sends nothing any more, whose lease then counts as expired. `onTime` is told the time of the database meanwhile, in
   * milliseconds since the epoch.
   */
  claim(
    owner: string,
    leaseMs: number,
    onTime?: (nowMs: number) => void,
    isGone?: (owner: string) => boolean,
  ): Promise<readonly number[]>;
  /** Whether others hold all shards, and as many are alive as there are: this one would get none. It changes nothing. */
  isFull(owner: string): Promise<boolean>;
  /** Who holds shards at the moment. */
  holders(): Promise<readonly ShardHolder[]>;
  /** Gives all back, and says that `owner` is gone. */
  release(owner: string): Promise<void>;
  /** PENDING rows of these shards that are not excepted, also those that wait for their next try, by ascending id. */
  pending(shards: readonly number[], except: ExceptRows, limit: number): Promise<readonly StoredRow[]>;
  /** The aggregates in these shards that have FAILED rows, some more than once. */
  failedAggregates(shards: readonly number[]): Promise<readonly Aggregate[]>;
  /**
   * Marks rows as PUBLISHED, as far as `owner` holds their shard still; with `keep: false` deletes them instead. Returns those
   * that are not PENDING any more: the others belong to a shard of somebody else.
   */
  ack(owner: string, ids: readonly number[], keep: boolean): Promise<readonly number[]>;
  /** Writes down what failed, as far as `owner` holds the shard still. */
  fail(owner: string, failures: readonly RowFailure[]): Promise<void>;
  /** The highest id that there is; 0: no rows. */
  lastId(): Promise<number>;
  /** Whether the row of that event is there, among those after an id. */
  holds(eventId: string, afterId: number): Promise<boolean>;
  /** PENDING rows, counted: for the gauge and the size of batches. */
  countPending(): Promise<number>;
  statistics(): Promise<OutboxStatistics>;
  /**
   * Looks through the whole table, for an operator. Rejects with SVC_OUTBOX_STRAY_ROWS where somebody else has written rows that no
   * relay finds, with a shard, an id or a status that svc never gives.
   */
  checkRows(): Promise<void>;
  /** The statement that makes the table refuse such rows; `undefined`: it does. */
  missingGuard(): Promise<string | undefined>;
  /** Rows by ascending id, from the one after `afterId`. */
  read(filter: RowFilter, afterId: number, limit: number): Promise<readonly StoredRow[]>;
  /** Makes FAILED rows PENDING again, with all their tries. Returns how many. */
  retry(filter: RowFilter): Promise<number>;
  /** Deletes rows. Returns how many. */
  discard(filter: RowFilter): Promise<number>;
  /**
   * Deletes up to `limit` rows of that status that have had it for longer than `ageMs`; does nothing while another instance is at it.
   * Returns how many.
   */
  cleanup(status: 'PUBLISHED' | 'FAILED', ageMs: number, limit: number): Promise<number>;
  /** Where the database can carry them. */
  readonly notices?: Notices | undefined;
  /**
   * Where the table has a partition for each day: makes those of the next days, and drops those whose rows have all been PUBLISHED
   * for longer than `ageMs`. What the application's transactions hold up is done another time. Returns whether it has partitions.
   */
  partition(ageMs: number): Promise<boolean>;
  /**
   * The address of a database on another machine, if the last connection to it was not encrypted. `undefined` also before the first
   * connection.
   */
  inClearTo(): Promise<string | undefined>;
  close(deadlineMs: number): Promise<void>;
}

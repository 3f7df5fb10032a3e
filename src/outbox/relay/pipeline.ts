import { type Clock, inTime } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { QuietLog } from '../../observe/quiet-log.ts';
import type { Broker } from '../../publish/broker.ts';
import type { Breaker } from '../../publish/main/breaker.ts';
import type { PartitionCounts } from '../../publish/main/partition-counts.ts';
import type { TopicRefusals } from '../../publish/main/topic-refusals.ts';
import { partitionOf } from '../../publish/partition-of-key.ts';
import type { Aggregate, OutboxStore, RowFailure, StoredRow } from '../outbox-store.ts';
import { createAcknowledger } from './acknowledger.ts';
import { createAggregateOrder, type QueueEntry, type RowEnd } from './aggregate-order.ts';
import { createPartitionSends } from './partition-sends.ts';
import { createPauses } from './pauses.ts';
import { maxDeferred, partitionPauses, type RelaySettings, topicPauses } from './relay-settings.ts';
import { createRowCounts, type Processed, type RelayCounters } from './row-counts.ts';
import { createSendResults } from './send-results.ts';
import type { ShardLease } from './shard-lease.ts';

export interface PipelineOptions {
  readonly store: Pick<OutboxStore, 'ack' | 'fail'>;
  readonly broker: Pick<Broker, 'send' | 'describe'>;
  readonly counts: PartitionCounts;
  readonly owner: string;
  readonly settings: RelaySettings;
  readonly breaker: Breaker;
  readonly refusals: TopicRefusals;
  readonly lease: Pick<ShardLease, 'epochOf' | 'lasts' | 'lost'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly say: QuietLog;
  readonly counters: RelayCounters;
  /** There is room, or nothing is under way any more. */
  readonly onRoom: () => void;
  /** Rows that are due again after so many milliseconds. */
  readonly onNextPassIn: (ms: number) => void;
}

/** What is between reading and acknowledging: rows in memory, in the order of their aggregates. */
export interface Pipeline {
  /** Before each reading: what is acknowledged from now on may be in its result still. */
  startReading(): void;
  /** Takes rows in. Returns how many of them are on their way now; the others are known already, or deferred. */
  add(rows: readonly StoredRow[], epochs: ReadonlyMap<number, number>): Promise<number>;
  newPass(): void;
  /** Their rows are deferred in this pass. */
  block(aggregates: readonly Aggregate[]): void;
  /** Rows in memory, and those that are deferred in this pass; `undefined`: too many to name. */
  knownIds(): readonly number[] | undefined;
  /** Nothing is sent while `work` runs, and what was sent is acknowledged before, as far as that comes in time. */
  withoutSends<T>(work: () => Promise<T>, maxWaitMs: number): Promise<T>;
  /** Partitions that have failed are tried again in the next pass. */
  retryPartitions(): void;
  /** What is not in a send is deferred. */
  drop(): void;
  /** Resolves when nothing is in memory any more. */
  idle(): Promise<void>;
  /** Takes nothing more in, and gives up acknowledging. */
  stop(): void;
  readonly rows: number;
  readonly bytes: number;
  /** Aggregates that wait for another pass. */
  readonly blocked: number;
  readonly isFull: boolean;
  /** Milliseconds until what is paused is tried again. */
  nextPausedMs(): number;
  readonly processed: Processed;
  /** Monotonic; `undefined`: none yet. */
  readonly lastSuccessMs: number | undefined;
  /** Rows of the last send that failed for no fault of theirs that is known, where none has succeeded since. */
  readonly lastFailedRows: readonly StoredRow[];
}

export function createPipeline(options: PipelineOptions): Pipeline {
  const { store, counts, owner, settings, breaker, lease, clock, logger, say, onRoom } = options;
  const order = createAggregateOrder();
  const topics = createPauses({ ...topicPauses, clock });
  const partitions = createPauses({ ...partitionPauses, clock });
  const known = new Map<number, QueueEntry>();
  /** What became of rows since the reading under way began. */
  const written = new Map<number, 'sent' | 'failed'>();
  /** Rows of this pass that another one will read again. */
  const deferred = new Set<number>();
  const waiting = new Set<() => void>();
  const rowCounts = createRowCounts(options.counters);
  let bytes = 0;
  let lastSuccessMs: number | undefined;
  let isSuspended = false;
  let isStopped = false;

  const acknowledger = createAcknowledger({
    ...{ store, owner, say, keep: settings.retentionDays > 0 },
    onSent(ids, acked) {
      for (const id of acked) rowCounts.sent(known.get(id));
      if (acked.length < ids.length) shardsLost(ids, new Set(acked));
      for (const id of ids) forget(id, 'sent');
      changed();
    },
    onFailed(failures) {
      for (const { id, retryInMs } of failures) {
        if (retryInMs === null) rowCounts.gaveUp(known.get(id));
        forget(id, 'failed');
        options.onNextPassIn(retryInMs ?? 0);
      }
      changed();
    },
    onIdle: changed,
  });

  const results = createSendResults({
    ...{ broker: options.broker, counts, topics, partitions, breaker, logger, say, settings },
    ...{ refusals: options.refusals, clock, settle, spendRetry },
    onSendFailed: options.counters.ledger.brokerFailed,
    onStored: () => {
      lastSuccessMs = clock.monotonic();
    },
  });

  const sends = createPartitionSends({
    ...{ broker: options.broker, sendTimeoutMs: settings.sendTimeoutMs, clock, settle },
    predecessorOf: order.predecessorOf,
    decide(entry, partition) {
      if (topics.has(partition.topic)) return 'paused';
      if (partitions.has(partition.key) || breaker.state === 'OPEN') return 'deferred';
      if (lease.epochOf(entry.row.shard) !== entry.epoch || !lease.lasts(settings.sendTimeoutMs))
        return 'deferred';
      return breaker.state === 'HALF-OPEN' && sends.underWay > 0 ? 'wait' : 'send';
    },
    onResult: results.take,
    onSent: changed,
  });

  function settle(entry: QueueEntry, end: RowEnd): void {
    if (entry.end !== undefined) return;
    for (const each of order.end(entry, end)) {
      if (end === 'sent') {
        each.sentMs = clock.monotonic();
        acknowledger.sent(each.row.id);
      } else defer(each.row.id);
      if (--each.page.remaining === 0) acknowledger.flush();
    }
    if (end === 'deferred') options.onNextPassIn(partitionPauses.firstMs);
  }

  /** It stays in memory until that is written: read again before, it would be sent at once. */
  function spendRetry(entry: QueueEntry, failure: RowFailure): void {
    for (const each of order.end(entry, 'deferred')) {
      if (each !== entry) defer(each.row.id);
      if (--each.page.remaining === 0) acknowledger.flush();
    }
    acknowledger.failed(failure);
    acknowledger.flush();
  }

  function defer(id: number): void {
    deferred.add(id);
    forget(id);
  }

  function forget(id: number, why?: 'sent' | 'failed'): void {
    const entry = known.get(id);
    if (entry === undefined) return;
    known.delete(id);
    bytes -= entry.row.payload.length;
    if (why !== undefined) written.set(id, why);
  }

  function shardsLost(ids: readonly number[], acked: ReadonlySet<number>): void {
    for (const id of ids) {
      const entry = known.get(id);
      if (entry !== undefined && !acked.has(id)) lease.lost(entry.row.shard);
    }
  }

  function changed(): void {
    if (sends.isQuiet && (isSuspended || sends.underWay === 0)) acknowledger.flush();
    for (const look of [...waiting]) look();
    onRoom();
  }

  function until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!isSo()) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });
  }

  /** Rows that wait, that were sent, or whose topic takes nothing, are not taken in. */
  function accepts(row: StoredRow): boolean {
    const entry = known.get(row.id);
    const became = entry?.end === 'deferred' ? 'failed' : written.get(row.id);
    if (became === 'failed') order.block(row);
    if (entry !== undefined || became !== undefined) return false;
    if (topics.has(row.topic)) return false;
    if (row.waitMs <= 0) return true;
    order.block(row);
    options.onNextPassIn(row.waitMs);
    return false;
  }

  return {
    startReading: () => written.clear(),

    async add(rows, epochs) {
      const names = new Set<string>();
      for (const { topic, fault } of rows) if (fault === undefined && !topics.has(topic)) names.add(topic);
      const unknown = [...names].filter((topic) => counts.known(topic) === undefined);
      const limit = { limitMs: settings.sendTimeoutMs, keepsAlive: false, late: () => undefined };
      await inTime(Promise.all(unknown.map(counts.ask)), limit);
      if (isStopped) return 0;
      const page = { remaining: 0 };
      const takenMs = clock.monotonic();
      for (const row of rows) {
        const epoch = epochs.get(row.shard);
        const isTaken = accepts(row) && epoch !== undefined;
        const entry = isTaken ? order.add({ row, epoch, page, takenMs }) : undefined;
        if (entry === undefined) {
          deferred.add(row.id);
          continue;
        }
        page.remaining++;
        known.set(row.id, entry);
        bytes += row.payload.length;
        const count = row.fault === undefined ? counts.known(row.topic) : undefined;
        sends.put(entry, count === undefined ? undefined : partitionOf(row.key, count));
      }
      sends.pump();
      return page.remaining;
    },

    newPass() {
      deferred.clear();
      order.newPass();
      // Its failure is not written down yet: it is not read again, and what is behind it must wait.
      for (const { row, end } of known.values()) if (end === 'deferred') order.block(row);
      topics.newPass();
      partitions.newPass();
    },

    block: (aggregates) => aggregates.forEach(order.block),

    knownIds: () => (deferred.size > maxDeferred ? undefined : [...known.keys(), ...deferred]),

    async withoutSends(work, maxWaitMs) {
      isSuspended = true;
      sends.suspend();
      acknowledger.flush();
      const quiet = until(() => sends.isQuiet && acknowledger.isIdle);
      await inTime(quiet, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
      try {
        return await work();
      } finally {
        isSuspended = false;
        sends.resume();
      }
    },

    retryPartitions: partitions.forget,
    drop: sends.drop,
    idle: () => until(() => known.size === 0),
    stop() {
      isStopped = true;
      sends.drop();
      acknowledger.stop();
    },
    get rows() {
      return known.size;
    },
    get bytes() {
      return bytes;
    },
    get blocked() {
      return order.blocked;
    },
    get isFull() {
      return order.isFull;
    },
    nextPausedMs: () => Math.min(topics.nextMs(), partitions.nextMs()),
    processed: rowCounts.processed,
    get lastSuccessMs() {
      return lastSuccessMs;
    },
    get lastFailedRows() {
      return results.lastFailedRows;
    },
  };
}

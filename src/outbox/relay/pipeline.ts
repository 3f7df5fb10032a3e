import { backoffMs, type Clock, inTime } from '../../ground/clock.ts';
import { type Logger, type QuietLog, throttledLog } from '../../observe/logger.ts';
import type { Ledger, PublishDurations } from '../../observe/outcomes.ts';
import {
  type Broker,
  doubtsCount,
  faultOf,
  isNotMade,
  notMadeFailure,
  partitionOf,
  type SendFailure,
  type SendFailureKind,
} from '../../publish/broker.ts';
import {
  afterRetries,
  type Breaker,
  type PartitionCounts,
  type TopicRefusals,
} from '../../publish/main/cluster-state.ts';
import {
  createSender,
  keyOf as partitionKey,
  type TopicPartition,
  type UncertainBatches,
} from '../../publish/sender/sender.ts';
import type { Aggregate, OutboxStore, RowFailure, StoredRow } from '../outbox-store.ts';
import {
  createWakeup,
  firstStorePauseMs,
  longestStorePauseMs,
  type RelaySettings,
  reasonOf,
  type ShardLease,
} from './shard-lease.ts';

/** Concurrent sends, to different partitions. */
const maxSends = 8;
/** A send that ends this much later than its time-out: the process was suspended, and missed the answers. */
const stallMs = 1_000;
/** Limits of one send. */
const maxSendRecords = 500;
const maxSendBytes = 512 * 1024;
/** Deferred rows that each read excludes by id. */
const maxDeferred = 5_000;
/** Limit of blocked aggregates in one pass. Beyond it the pass ends. */
const maxBlocked = 200_000;
/** Backoff of a row that failed by its own fault: 1 s, 2 s, 4 s, … */
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;
/** For a topic that refuses. Doubles. */
const topicPauses = { firstMs: 5_000, longestMs: 60_000 };
/** For a partition that fails. Doubles. */
const partitionPauses = { firstMs: 1_000, longestMs: 10_000 };

/**
 * How a row leaves the relay's memory:
 * - `sent`;
 * - `deferred` to another pass, with the later rows of its aggregate;
 * - `paused` with its topic, which does not hold up rows of other topics.
 */
type RowEnd = 'sent' | 'deferred' | 'paused';

/** A row in memory, in the queue of its partition. */
interface QueueEntry {
  readonly row: StoredRow;
  /** Of its shard when it was read. */
  readonly epoch: number;
  /** The rows read together. `remaining`: rows of it without an end. */
  readonly page: { remaining: number };
  /** When it was read, and when the broker had it, on the monotonic clock. */
  readonly takenMs: number;
  sentMs?: number;
  /** Its neighbors in the aggregate, while they matter. */
  previous: QueueEntry | undefined;
  next: QueueEntry | undefined;
  end: RowEnd | undefined;
}

/** The rows of each aggregate in order. A deferred row holds back only the rows behind it. */
function createAggregateOrder() {
  /** The last row in memory of each aggregate. */
  const last = new Map<string, QueueEntry>();
  const blocked = new Set<string>();

  function block(key: string): void {
    blocked.add(key);
    last.delete(key);
  }

  function predecessorOf(entry: QueueEntry): QueueEntry | undefined {
    let previous = entry.previous;
    while (previous?.end !== undefined) previous = previous.previous;
    return previous;
  }

  return {
    /** `undefined`: an earlier row of its aggregate is deferred in this pass, and so this one is, too. */
    add(read: Pick<QueueEntry, 'row' | 'epoch' | 'page' | 'takenMs'>): QueueEntry | undefined {
      const key = keyOf(read.row);
      if (blocked.has(key)) return undefined;
      const previous = last.get(key);
      const entry: QueueEntry = { ...read, previous, next: undefined, end: undefined };
      if (previous !== undefined) previous.next = entry;
      last.set(key, entry);
      return entry;
    },
    /** Defers a row that is not in memory, and all behind it. */
    block: (row: Aggregate): void => block(keyOf(row)),
    /** Returns the rows that ended, `entry` first. Rows behind a deferred row are deferred as well. */
    end(entry: QueueEntry, end: RowEnd): readonly QueueEntry[] {
      const key = keyOf(entry.row);
      if (end !== 'deferred') {
        entry.end = end;
        const first = end === 'sent' ? undefined : predecessorOf(entry);
        // A paused row stays linked: the rows before it still hold back the rows behind it.
        if (end === 'sent' && entry.next !== undefined) entry.next.previous = undefined;
        if (last.get(key) !== entry) return [entry];
        if (first === undefined) last.delete(key);
        else last.set(key, first);
        return [entry];
      }
      const ended: QueueEntry[] = [];
      for (let each: QueueEntry | undefined = entry; each !== undefined; each = each.next) {
        if (each.end !== undefined) continue;
        each.end = 'deferred';
        ended.push(each);
      }
      block(key);
      return ended;
    },
    /** The row that must be sent first, or in the same batch. */
    predecessorOf,
    /** A new pass reads from the first row: nothing is blocked. */
    newPass: (): void => blocked.clear(),
    get blocked(): number {
      return blocked.size;
    },
    /** No further aggregates can be remembered. */
    get isFull(): boolean {
      return blocked.size >= maxBlocked;
    },
  };
}

export const keyOf = ({ aggregateType, aggregateId }: Aggregate): string =>
  `${aggregateType}\n${aggregateId}`;

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Limit of remembered keys. Topic names can come from application data. */
const maxPlaces = 10_000;

type Pauses = ReturnType<typeof createPauses>;

/** Topics or partitions that get no sends for a while, with exponential backoff. */
export function createPauses(options: {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly clock: Clock;
}) {
  const { firstMs, longestMs, clock } = options;
  const places = new Map<string, Place>();
  const paused = new Set<string>();
  return {
    /** True: it was not paused before, or was resumed since. */
    pause(key: string): boolean {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      paused.add(key);
      return failures === 1;
    },
    /**
     * Also true after the backoff until the next pass begins, which reads the rows left out. Otherwise later rows would be sent
     * before them.
     */
    has: (key: string): boolean => paused.has(key),
    /** It accepted a send. True: it was paused before. */
    resume(key: string): boolean {
      return places.size > 0 && !paused.has(key) && places.delete(key);
    },
    /** The next pass tries all of them again, with their backoff reset. */
    forget: (): void => places.clear(),
    /** A pass begins: ends pauses whose backoff is over. */
    newPass(): void {
      const nowMs = clock.monotonic();
      for (const key of paused) if ((places.get(key)?.untilMs ?? 0) <= nowMs) paused.delete(key);
    },
    /** Milliseconds until the first pause ends; `Infinity`: none. */
    nextMs(): number {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const key of paused) nextMs = Math.min(nextMs, places.get(key)?.untilMs ?? 0);
      return Math.max(0, nextMs - clock.monotonic());
    },
  };
}

/** After so many passes without the batch, or failed tries of it with an unknown outcome, other rows no longer wait for it. */
const maxUncertainTries = 3;

/**
 * Batches with an unknown outcome. A broker recognizes a batch only if it is repeated before any other batch of its partition. So
 * other rows of the partition wait for it, also those with lower ids that were committed later.
 */
function createUncertain() {
  const batches: UncertainBatches = new Map();
  const tries = new Map<string, { batch: ReturnType<UncertainBatches['get']>; left: number }>();
  /** The batch that other rows of this partition wait for. */
  const awaitedBatch = (key: string) => ((tries.get(key)?.left ?? 0) > 0 ? batches.get(key) : undefined);
  return {
    batches,
    /** A send to this partition failed, and `batches` is up to date. */
    failed(key: string): void {
      const batch = batches.get(key);
      const known = tries.get(key);
      if (batch === undefined || known?.batch === batch) return;
      const isSame = known?.batch?.ids.join() === batch.ids.join();
      tries.set(key, { batch, left: isSame && known ? known.left - 1 : maxUncertainTries });
    },
    isAwaited: (key: string): boolean => awaitedBatch(key) !== undefined,
    /** Whether this row is outside the batch that is awaited. */
    mustWait: (key: string, eventId: string): boolean => awaitedBatch(key)?.ids.includes(eventId) === false,
    /** The rows of the first awaited batch that is complete in `rows`. */
    wholeIn(rows: readonly StoredRow[]): readonly StoredRow[] {
      for (const key of batches.keys()) {
        const ids = awaitedBatch(key)?.ids;
        const found = rows.filter(({ eventId }) => ids?.includes(eventId));
        if (found.length === ids?.length) return found;
      }
      return [];
    },
    newPass(isPaused: (key: string) => boolean): void {
      for (const [key, one] of tries) {
        if (!batches.has(key)) tries.delete(key);
        else if (!isPaused(key)) one.left--;
      }
    },
    giveUp(): void {
      for (const one of tries.values()) one.left = 0;
    },
  };
}

interface PipelineOptions {
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
  /** Memory was freed, or nothing is in flight. */
  readonly onRoom: () => void;
  /** Rows are due again in this many milliseconds. */
  readonly onNextPassIn: (ms: number) => void;
}

export type Pipeline = ReturnType<typeof createPipeline>;

/** Rows between read and acknowledgment, in the order of their aggregates. */
export function createPipeline(options: PipelineOptions) {
  const { store, counts, owner, settings, breaker, lease, clock, logger, say, onRoom } = options;
  const order = createAggregateOrder();
  const topics = createPauses({ ...topicPauses, clock });
  const partitions = createPauses({ ...partitionPauses, clock });
  const known = new Map<number, QueueEntry>();
  /** The end of rows since the current read began. */
  const written = new Map<number, 'sent' | 'failed'>();
  /** Rows of this pass that another pass will read again. */
  const deferred = new Set<number>();
  const waiting = new Set<() => void>();
  const rowCounts = createRowCounts(options.counters);
  const uncertain = createUncertain();
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

  /** The rows of each send, with the time of its start. */
  const inFlight = new Map<readonly QueueEntry[], number>();
  /** Sends in flight when sending was suspended, as far as it waits for them. */
  const awaited = new Set<readonly QueueEntry[]>();
  const { sendTimeoutMs } = settings;
  const sender = createSender<QueueEntry>({
    ...{ clock, maxInFlight: maxSends, limits: { maxEvents: maxSendRecords, maxBytes: maxSendBytes } },
    bytesOf: ({ row }) => row.payload.length,
    mayGo,
    uncertain: { batches: uncertain.batches, idOf: ({ row }) => row.eventId },
    // A row cannot go anywhere else.
    splitsMaybeStored: true,
    toRecord: ({ row: { key, payload: value, headers } }, timestamp) => ({ key, value, headers, timestamp }),
    async send({ topic, partition }, records, [first]) {
      const fault = first?.row.fault;
      if (fault !== undefined) return { ok: false, failure: notMadeFailure(fault) };
      return options.broker.send(topic, partition, records);
    },
    timeLimit: { limitMs: () => sendTimeoutMs, keepsAlive: false, late: () => tooLate(sendTimeoutMs) },
    onSend: (entries) => void inFlight.set(entries, clock.monotonic()),
    onStored(to, entries) {
      results.stored(to, entries);
      sent(entries);
    },
    async onFailed(to, { events }, failure, about): Promise<'ended'> {
      uncertain.failed(to.key);
      await results.failed(to, events, failure, about);
      sent(events);
      return 'ended';
    },
    onSent: changed,
  });

  function sent(entries: readonly QueueEntry[]): void {
    inFlight.delete(entries);
    awaited.delete(entries);
  }

  /** Ends a row that cannot be sent in this pass. */
  function mayGo(
    entry: QueueEntry,
    { topic, key, isLate }: TopicPartition,
    batch: ReadonlySet<QueueEntry>,
  ): 'send' | 'wait' | 'ended' {
    const { row, epoch, end } = entry;
    if (isSuspended) return 'wait';
    if (end !== undefined) return 'ended';
    const isPaused = !isLate && topics.has(topic);
    const isMine = lease.epochOf(row.shard) === epoch && lease.lasts(sendTimeoutMs);
    const mustWait = uncertain.mustWait(key, row.eventId);
    if (isPaused || isLate || mustWait || partitions.has(key) || breaker.state === 'OPEN' || !isMine) {
      settle(entry, isPaused ? 'paused' : 'deferred');
      return 'ended';
    }
    const first = order.predecessorOf(entry);
    const isTested = breaker.state === 'HALF-OPEN' && inFlight.size > 0;
    return isTested || (first !== undefined && !batch.has(first)) ? 'wait' : 'send';
  }

  function drop(): void {
    for (const entry of sender.takeAll()) settle(entry, 'deferred');
  }

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

  /** It stays in memory until the failure is written: a read before that would send it at once. */
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
    if (awaited.size === 0 && (isSuspended || inFlight.size === 0)) acknowledger.flush();
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

  /** Does not accept rows that are not due or already sent, nor rows of a paused topic. */
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
    /** Call before each read, whose result may still contain rows acknowledged from then on. */
    startReading: (): void => written.clear(),

    /** Adds rows. Returns how many of them wait for a send. The others are known, deferred or paused. */
    async add(rows: readonly StoredRow[], epochs: ReadonlyMap<number, number>): Promise<number> {
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
        sender.put(entry, row.topic, count === undefined ? undefined : partitionOf(row.key, count));
      }
      sender.pump();
      return page.remaining;
    },

    newPass(): void {
      deferred.clear();
      order.newPass();
      // Its failure is not written yet: it is not read again, and the rows behind it must wait.
      for (const { row, end } of known.values()) if (end === 'deferred') order.block(row);
      topics.newPass();
      partitions.newPass();
      if (breaker.state === 'CLOSED') uncertain.newPass(partitions.has);
    },

    /** The rows to test the cluster with: at most `count`, or a whole uncertain batch. Empty: all others wait for such a batch. */
    toTest(rows: readonly StoredRow[], count: number): readonly StoredRow[] {
      const free = rows.filter(({ topic, key }) => {
        const known = counts.known(topic);
        return !uncertain.isAwaited(partitionKey(topic, known && partitionOf(key, known)));
      });
      return free.length > 0 ? free.slice(0, count) : uncertain.wholeIn(rows);
    },
    /** Rows no longer wait for uncertain batches. */
    giveUpUncertain: uncertain.giveUp,

    /** Defers their rows in this pass. */
    block: (aggregates: readonly Aggregate[]): void => aggregates.forEach(order.block),

    /** Ids of rows in memory and of rows deferred in this pass; `undefined`: too many. */
    knownIds: (): readonly number[] | undefined =>
      deferred.size > maxDeferred ? undefined : [...known.keys(), ...deferred],

    /** Runs `work` while nothing is sent. Before, it waits for acknowledgments in the table, up to `maxWaitMs`. */
    async withoutSends<T>(work: () => Promise<T>, maxWaitMs: number): Promise<T> {
      isSuspended = true;
      const promptSinceMs = clock.monotonic() - promptMs;
      for (const [entries, sinceMs] of inFlight) if (sinceMs > promptSinceMs) awaited.add(entries);
      acknowledger.flush();
      const quiet = until(() => awaited.size === 0 && acknowledger.isIdle);
      await inTime(quiet, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
      try {
        return await work();
      } finally {
        isSuspended = false;
        awaited.clear();
        sender.pump();
      }
    },

    /** Partitions that failed are tried again in the next pass. */
    retryPartitions: partitions.forget,
    /** Defers all rows that are not in a send. */
    drop,
    /** Resolves when memory is empty. */
    idle: (): Promise<void> => until(() => known.size === 0),
    /** Adds no further rows, and stops acknowledging. */
    stop(): void {
      isStopped = true;
      drop();
      acknowledger.stop();
    },
    get rows() {
      return known.size;
    },
    get bytes() {
      return bytes;
    },
    /** Aggregates that wait for another pass. */
    get blocked() {
      return order.blocked;
    },
    get isFull() {
      return order.isFull;
    },
    /** Milliseconds until a paused topic or partition is tried again. */
    nextPausedMs: (): number => Math.min(topics.nextMs(), partitions.nextMs()),
    processed: rowCounts.processed,
    /** On the monotonic clock; `undefined`: none yet. */
    get lastSuccessMs() {
      return lastSuccessMs;
    },
    get lastFailedRows() {
      return results.lastFailedRows;
    },
  };
}

/** `withoutSends` does not wait for older sends: a partition that hangs must not hold up others. */
const promptMs = 500;

function tooLate(sendTimeoutMs: number): SendFailure {
  return {
    kind: 'unknown_outcome',
    cause: 'TimeoutException',
    message: `not acknowledged within ${sendTimeoutMs} ms (svc.outbox.send-timeout-seconds)`,
  };
}

interface AcknowledgerOptions {
  readonly store: Pick<OutboxStore, 'ack' | 'fail'>;
  readonly owner: string;
  /** `false`: sent rows are deleted. */
  readonly keep: boolean;
  readonly say: QuietLog;
  /** Written. Rows outside `acked` belong to a lost shard, and another relay sends them again. */
  readonly onSent: (ids: readonly number[], acked: readonly number[]) => void;
  readonly onFailed: (failures: readonly RowFailure[]) => void;
  readonly onIdle: () => void;
}

/** A sent row waits at most this long for the rest of its batch, because a partition may hang. */
const lingerMs = 100;

/** Writes the ends of rows, in one statement for many. After an error it tries again; meanwhile they are not sent again. */
function createAcknowledger(options: AcknowledgerOptions) {
  const { store, owner, keep, say, onSent, onFailed, onIdle } = options;
  const pause = createWakeup();
  let sent: number[] = [];
  let failures: RowFailure[] = [];
  let isWriting = false;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function write(): Promise<void> {
    isWriting = true;
    clearTimeout(timer);
    timer = undefined;
    for (let failed = 0; sent.length + failures.length > 0 && !isStopped; ) {
      try {
        await writeFailures();
        await writeSent();
        failed = 0;
      } catch (error) {
        failed++;
        say('ack', `outbox: sent rows cannot be marked in the table yet: ${reasonOf(error)}`);
        if (!isStopped) await pause.wait(backoffMs(failed, firstStorePauseMs, longestStorePauseMs));
      }
    }
    isWriting = false;
    onIdle();
  }

  async function writeFailures(): Promise<void> {
    // Failures added during the write stay for the next one.
    const written = [...failures];
    if (written.length === 0) return;
    await store.fail(owner, written);
    failures = failures.slice(written.length);
    onFailed(written);
  }

  async function writeSent(): Promise<void> {
    const ids = [...sent];
    if (ids.length === 0) return;
    const acked = await store.ack(owner, ids, keep);
    sent = sent.slice(ids.length);
    onSent(ids, acked);
  }

  function flush(): void {
    if (!isWriting && !isStopped && sent.length + failures.length > 0) void write();
  }

  return {
    sent(id: number): void {
      sent.push(id);
      timer ??= setTimeout(() => {
        timer = undefined;
        flush();
      }, lingerMs).unref();
    },
    /** Failed by its own fault. */
    failed: (failure: RowFailure) => void failures.push(failure),
    /** Writes all ends, after the current write. */
    flush,
    get isIdle() {
      return !isWriting && sent.length + failures.length === 0;
    },
    /** Stops retrying. */
    stop() {
      isStopped = true;
      clearTimeout(timer);
      pause.raise();
    },
  };
}

interface SendResultsOptions {
  readonly broker: Pick<Broker, 'describe'>;
  readonly counts: PartitionCounts;
  readonly topics: Pauses;
  readonly partitions: Pauses;
  readonly refusals: TopicRefusals;
  readonly breaker: Breaker;
  readonly logger: Logger;
  readonly say: QuietLog;
  readonly clock: Clock;
  readonly settings: Pick<RelaySettings, 'maxRetries' | 'sendTimeoutMs' | 'onFailed'>;
  readonly settle: (entry: QueueEntry, end: RowEnd) => void;
  /** Failed by its own fault. */
  readonly spendRetry: (entry: QueueEntry, failure: RowFailure) => void;
  readonly onStored: () => void;
  /** For each failed send. */
  readonly onSendFailed: (kind: SendFailureKind) => void;
}

/** Limit of `last_error`, in characters. */
const maxErrorLength = 500;

/** Applies the result of a send to its rows, its topic and the breaker. */
function createSendResults(options: SendResultsOptions) {
  const { broker, counts, topics, partitions, breaker, logger, say, settings, settle } = options;
  /** For problems that only an operator can solve. */
  const sayError = throttledLog(logger, options.clock);
  /** Rows of the last failed send without a known fault of their own, if none has succeeded since. */
  let lastFailedRows: readonly StoredRow[] = [];
  /** The last log line says that events cannot be sent. The breaker logs its own changes. */
  let isSaid = false;

  function stored(partition: TopicPartition, entries: readonly QueueEntry[]): void {
    if (isSaid) logger.info('outbox: events are sent again');
    isSaid = false;
    breaker.answered();
    options.onStored();
    lastFailedRows = [];
    partitions.resume(partition.key);
    options.refusals.taken(partition.topic);
    if (topics.resume(partition.topic)) logger.info(`outbox: topic "${partition.topic}" takes events again`);
    for (const entry of entries) settle(entry, 'sent');
  }

  /** The cluster answered, unless it was not asked. */
  function heard(failure: SendFailure): void {
    if (!isNotMade(failure)) breaker.answered();
  }

  function failedAlone(entry: QueueEntry, failure: SendFailure): void {
    heard(failure);
    const { id, retryCount, eventId, eventType, topic } = entry.row;
    const fields = { eventId, eventType, topic, cause: failure.cause, retryCount };
    if (retryCount < settings.maxRetries && !isNotMade(failure)) {
      say(
        `event ${failure.cause}`,
        `outbox: an event was refused, and is tried again: ${failure.message}`,
        fields,
      );
      const retryInMs = backoffMs(retryCount + 1, firstRetryMs, longestRetryMs);
      const lastError = oneLine(failure);
      options.spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs });
      return;
    }
    const last = afterRetries(failure, retryCount);
    const follows = settings.onFailed === 'block' ? 'blocks its aggregate' : 'is set aside';
    sayError(
      `event FAILED ${failure.cause}`,
      `outbox: an event is FAILED and ${follows}; npx --no svc outbox retry-failed sends it again: ${last.message}`,
      fields,
    );
    const lastError = oneLine(last);
    options.spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs: null });
  }

  function refused({ topic }: TopicPartition, entries: readonly QueueEntry[], failure: SendFailure): void {
    breaker.failed(failure, true);
    options.refusals.refused(topic, failure, false);
    if (topics.pause(topic))
      logger.warn(`outbox: the events for topic "${topic}" wait in their table: ${failure.message}`, {
        cause: failure.cause,
      });
    for (const entry of entries) settle(entry, 'paused');
  }

  function away(
    partition: TopicPartition,
    entries: readonly QueueEntry[],
    failure: SendFailure,
    tookMs: number,
  ): void {
    partitions.pause(partition.key);
    lastFailedRows = entries.map(({ row }) => row);
    // The process was suspended and missed the answers: this says nothing about the cluster.
    const isUnheard = tookMs > settings.sendTimeoutMs + stallMs;
    if (!isUnheard || breaker.state === 'HALF-OPEN') breaker.failed(failure, true);
    isSaid = breaker.state === 'CLOSED';
    if (isSaid)
      say('send', `outbox: events cannot be sent, and wait in their table: ${failure.message}`, {
        topic: partition.topic,
        cause: failure.cause,
      });
    for (const entry of entries) settle(entry, 'deferred');
  }

  /** A broker drops the connection above its maximum request size, which looks like an outage. */
  async function isOnlyTooLarge({ payload }: StoredRow, { kind }: SendFailure): Promise<boolean> {
    if (payload.length <= maxSendBytes || (kind !== 'retriable' && kind !== 'unknown_outcome')) return false;
    const answer = broker.describe().then(
      () => true,
      () => false,
    );
    return inTime(answer, { limitMs: settings.sendTimeoutMs, keepsAlive: false, late: () => false });
  }

  async function failed(
    partition: TopicPartition,
    entries: readonly QueueEntry[],
    failure: SendFailure,
    { isSplit, tookMs }: { readonly isSplit: boolean; readonly tookMs: number },
  ): Promise<void> {
    const [first] = entries;
    options.onSendFailed(failure.kind);
    const fault = faultOf(failure);
    if (doubtsCount(failure)) void counts.ask(partition.topic);
    if (isSplit || first === undefined) return heard(failure);
    const isAlone = entries.length === 1;
    if (fault === 'record' || (isAlone && fault === 'cluster' && (await isOnlyTooLarge(first.row, failure))))
      failedAlone(first, failure);
    else if (fault !== 'cluster') refused(partition, entries, failure);
    else away(partition, entries, failure, tookMs);
  }

  return {
    stored,
    failed,
    get lastFailedRows() {
      return lastFailedRows;
    },
  };
}

function oneLine({ cause, message }: SendFailure): string {
  return `${cause}: ${message}`.replace(/\s+/g, ' ').slice(0, maxErrorLength);
}

/** Metrics of a relay. */
export interface RelayCounters {
  readonly ledger: Pick<Ledger, 'relayed' | 'gaveUp' | 'brokerFailed'>;
  /** From the read of a row until the broker had it. */
  readonly durations: Pick<PublishDurations, 'record'>;
}

/** Counts rows when their end is written: so each counts once, whichever relay sent it. */
function createRowCounts({ ledger, durations }: RelayCounters) {
  const processed = { published: 0, failed: 0 };
  return {
    sent(entry: QueueEntry | undefined): void {
      if (entry?.sentMs === undefined) return;
      const { eventType } = entry.row;
      processed.published++;
      ledger.relayed(eventType);
      durations.record(eventType, (entry.sentMs - entry.takenMs) / 1_000);
    },
    gaveUp(entry: QueueEntry | undefined): void {
      if (entry === undefined) return;
      processed.failed++;
      ledger.gaveUp(entry.row.eventType);
    },
    processed,
  };
}

// relay/: sends stored events from their table to their topics.

import type { Config } from '../../config/config.ts';
import { backoffMs, type Clock, systemClock, within } from '../../ground/clock.ts';
import type { CircuitState } from '../../ground/management.ts';
import { type Logger, type QuietLog, throttledLog } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type Broker, nameOf } from '../../publish/broker.ts';
import {
  type Breaker,
  breakerOpen,
  createCircuit,
  createPartitionCounts,
  createTopicRefusals,
  defaultBreaker,
} from '../../publish/main/cluster-state.ts';
import { bytesOf, createBatchSize } from '../batches.ts';
import type { ExceptRows, OutboxStore, StoredRow } from '../outbox-store.ts';
import { createStatistics, type Statistics } from '../statistics.ts';
import { createPipeline, keyOf, type Pipeline, type RelayCounters } from './pipeline.ts';
import {
  createShardLease,
  createWakeup,
  firstStorePauseMs,
  leaseMsFor,
  longestStorePauseMs,
  newOwner,
  type RelaySettings,
  reasonOf,
  type ShardLease,
  standbyMs,
  takingOver,
} from './shard-lease.ts';

export interface RelayParts {
  /** The caller prepares and closes it. */
  readonly store: OutboxStore;
  readonly broker: Broker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs svc's own work: not captured, without spans. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  readonly settings: RelaySettings;
  readonly counters: RelayCounters;
  /** Unique among all relays that ever share the table. */
  readonly owner: string;
}

export interface RelayState {
  readonly circuitBreakerState: CircuitState;
  readonly consecutiveFailures: number;
  /** `null`: nothing sent yet. */
  readonly timeSinceLastSuccessMs: number | null;
  /** PENDING rows, counted within the last seconds; `null`: not yet, or it is on standby. */
  readonly pending: number | null;
  /** Rows by this relay, since its start. */
  readonly processed: Pipeline['processed'];
  /** Enough other relays send the rows. It checks from time to time whether it is needed. */
  readonly standsBy?: true;
  /** For two leases it has neither claimed shards nor sent a row. */
  readonly stalled?: Stalled;
  /** One line about topics that refuse their rows. */
  readonly refused?: string;
}

interface Stalled {
  /** Since the last claim or row, or its start. */
  readonly forMs: number;
  /** One line; absent if no claim has been answered. */
  readonly reason?: string;
}

/** The publisher's part of the metrics summary. */
interface RelaySummary
  extends Omit<RelayState, 'pending' | 'processed' | 'standsBy' | 'stalled' | 'refused'> {
  readonly totalPending: number;
  readonly totalFailed: number;
}

/**
 * Sends the rows of the outbox to their topics, at least once, the rows of an aggregate in order. Relays share the table by leases
 * of shards.
 *
 * - A row that fails by its own fault is retried, and blocks its aggregate until it is sent or FAILED. A topic that refuses keeps
 *   only its own rows. An outage of the cluster costs no row a retry.
 * - After a crash, or when the broker's answer is lost, rows are sent again with the same event id.
 * - Order can break in one case: a process suspended for longer than its lease sends a row after another relay has.
 * - Failures of the database or the broker never end it. Its timers are unref'd.
 */
export interface Relay {
  start(): void;
  /** Rows were committed: reads at once. */
  wake(): void;
  /** Whether this relay may send the rows of this shard now. */
  holds(shard: number): boolean;
  state(): RelayState;
  /** Closes its circuit breaker and reads at once. */
  resetBreaker(): void;
  /** Rejects as the store does. */
  summary(): Promise<RelaySummary>;
  readonly statistics: Statistics;
  /**
   * Stops reading, sends and acknowledges the rows in memory, and releases the shards, within the deadline. The next owner of a
   * shard repeats longer sends after the lease has ended. Returns false if there were such sends.
   */
  stop(deadlineMs: number): Promise<boolean>;
  /** Reads all committed rows first, then stops in the same way. Returns whether all were sent. */
  finish(deadlineMs: number): Promise<boolean>;
}

/** A relay as configured, with a unique owner name. */
export function openRelay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  counters: RelayCounters,
  logger: Logger,
): Relay {
  return createRelay({
    ...{ store: takingOver(store, logger), broker, logger, isolate, clock: systemClock, counters },
    owner: newOwner(),
    settings: {
      batchSize: outbox.batchSize,
      pollIntervalMs: outbox.pollIntervalMs,
      maxRetries: outbox.maxRetries,
      onFailed: outbox.onFailed,
      sendTimeoutMs: outbox.sendTimeoutSeconds * 1000,
      retentionDays: outbox.retentionDays,
      failedRetentionDays: outbox.failedRetentionDays,
      cleanupEnabled: outbox.cleanupEnabled,
      dynamicBatching: outbox.dynamicBatchingEnabled,
      circuitBreaker: outbox.circuitBreakerEnabled,
    },
  });
}

export function createRelay(parts: RelayParts): Relay {
  const { store, broker, clock, logger, isolate, settings, owner, counters } = parts;
  const say = throttledLog(logger, clock, { level: 'warn' });
  const counts = createPartitionCounts((topic) => broker.partitionsFor(topic), clock);
  const refusals = createTopicRefusals(clock);
  const time = createDatabaseTime(clock, logger);
  const statistics = createStatistics({ store, clock, isolate });
  const cleanup = createCleanup({ store, settings, clock, logger, rests: () => lease.standsBy });
  const breaker = createRelayBreaker({
    ...{ enabled: settings.circuitBreaker, clock, logger },
    onOpen() {
      pipeline.drop();
      reader.recheck();
    },
  });
  const lease = createShardLease({
    ...{ owner, leaseMs: leaseMsFor(settings), clock, say, logger },
    store: {
      isFull: (owner) => store.isFull(owner),
      release: (owner) => store.release(owner),
      claim(owner, leaseMs) {
        const askedAtMs = clock.monotonic();
        return store.claim(owner, leaseMs, (nowMs) => time.observe(nowMs, askedAtMs));
      },
    },
    withoutSends: (claim, maxWaitMs) => pipeline.withoutSends(claim, maxWaitMs),
    onClaim: () => reader.recheck(),
    listen,
  });
  const pipeline = createPipeline({
    ...{
      store,
      broker,
      counts,
      owner,
      settings,
      breaker,
      refusals,
      lease,
      clock: time,
      logger,
    },
    ...{ say, counters },
    onRoom: () => reader.recheck(),
    onNextPassIn: (ms) => reader.nextPassIn(ms),
  });
  const reader = createReader({ store, settings, pipeline, lease, breaker, clock, say, logger });
  let listening: { readonly end: AbortController; readonly done: Promise<unknown> } | undefined;
  let running: Promise<unknown>[] = [];
  let stopped: Promise<boolean> | undefined;

  const holds = (shard: number): boolean => lease.epochOf(shard) !== undefined;

  function listen(is: boolean): void {
    if (!is) listening?.end.abort();
    if (!is) listening = undefined;
    if (!is || listening !== undefined || stopped !== undefined) return;
    const end = new AbortController();
    const hear = async (): Promise<void> =>
      store.notices?.listen((shards) => {
        if (shards === undefined || shards.some(holds)) reader.wake();
      }, end.signal);
    listening = { end, done: isolate(hear).catch(broken) };
  }

  /** The last resort: the application continues, whatever fails in the relay. */
  function broken(error: unknown): void {
    logger.error('outbox: the relay failed and has stopped; please report this', {
      cause: nameOf(error),
    });
  }

  function stalled(): Stalled | undefined {
    const { claimedAtMs, failure } = lease;
    if (claimedAtMs === undefined || stopped !== undefined) return undefined;
    const forMs = clock.monotonic() - Math.max(claimedAtMs, pipeline.lastSuccessMs ?? claimedAtMs);
    if (forMs < 2 * leaseMsFor(settings) + (lease.standsBy ? standbyMs : 0)) return undefined;
    return { forMs, ...(failure !== undefined && { reason: failure }) };
  }

  function state(): RelayState {
    const { lastSuccessMs, processed } = pipeline;
    const standstill = stalled();
    const refused = refusals.state();
    return {
      circuitBreakerState: breaker.state,
      consecutiveFailures: breaker.consecutiveFailures,
      timeSinceLastSuccessMs:
        lastSuccessMs === undefined || lease.standsBy ? null : Math.round(clock.monotonic() - lastSuccessMs),
      pending: (lease.standsBy ? undefined : statistics.pending()) ?? null,
      processed: { ...processed },
      ...(lease.standsBy && { standsBy: true }),
      ...(standstill && { stalled: standstill }),
      ...(refused !== undefined && { refused }),
    };
  }

  async function stop(deadlineMs: number): Promise<boolean> {
    const endMs = clock.monotonic() + deadlineMs;
    const leftMs = (share: number): number => Math.max(0, (endMs - clock.monotonic()) * share);
    const [reading, ...others] = running;
    reader.stop();
    cleanup.stop();
    const heard = listening?.done;
    listen(false);
    // Rows that cannot be sent in time are dropped while there is time to acknowledge the others.
    const sent = Promise.resolve(reading).then(() => pipeline.idle());
    let isIdle = await within(leftMs(0.7), sent);
    pipeline.drop();
    isIdle ||= await within(leftMs(0.5), sent);
    lease.stop();
    pipeline.stop();
    await within(leftMs(0.5), Promise.all([...others, heard]));
    // A shard with rows in flight keeps its lease until that ends.
    if (!isIdle) {
      logger.warn('outbox: sends were in flight at the end; their rows are sent again');
      return false;
    }
    if (lease.standsBy) return true;
    const released = store.release(owner).catch((error: unknown) => {
      say('release', `outbox: the shards were not released, and stay leased for a while: ${reasonOf(error)}`);
    });
    await within(leftMs(1), released);
    return true;
  }

  /** Reads for half of the time; sending needs the rest. Another relay sends later rows. */
  async function finish(deadlineMs: number): Promise<boolean> {
    const endMs = clock.monotonic() + deadlineMs;
    let isSeen = false;
    if (running.length > 0 && breaker.state !== 'OPEN') {
      const seen = reader.seesAll().then((is) => {
        isSeen = is;
      });
      await within(deadlineMs / 2, seen);
    }
    return (await stop(Math.max(0, endMs - clock.monotonic()))) && isSeen;
  }

  return {
    start() {
      if (running.length > 0 || stopped !== undefined) return;
      running = [reader, lease, cleanup].map((work) => isolate(() => work.run()).catch(broken));
    },
    wake: reader.wake,
    holds,
    state,
    resetBreaker() {
      breaker.reset();
      pipeline.retryPartitions();
      reader.nextPassIn(0);
    },
    async summary() {
      const { pending, failed } = await statistics.report();
      const { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs } = state();
      return {
        ...{ circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs },
        ...{ totalPending: pending, totalFailed: failed },
      };
    },
    statistics,
    stop(deadlineMs) {
      stopped ??= isolate(() => stop(deadlineMs));
      return stopped;
    },
    finish(deadlineMs) {
      stopped ??= isolate(() => finish(deadlineMs));
      return stopped;
    },
  };
}

/** From opening to the first probe, and from one probe to the next. */
const openMs = 60_000;

interface RelayBreakerOptions {
  /** `false`: always CLOSED. */
  readonly enabled: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** It is OPEN: nothing more may be sent. */
  readonly onOpen: () => void;
}

/**
 * The publisher's breaker with the settings of the outbox: OPEN after 5 consecutive failures of the cluster; HALF-OPEN 60 seconds
 * later, when one send decides. Nothing is lost: rows wait in their table.
 */
function createRelayBreaker({ enabled, clock, logger, onOpen }: RelayBreakerOptions): Breaker {
  return createCircuit({
    threshold: enabled ? defaultBreaker.threshold : Number.POSITIVE_INFINITY,
    probeIntervalMs: openMs,
    clock,
    // Faults of single rows never get here.
    countsFatal: true,
    onChange(to, _, why) {
      if (to === 'CLOSED') logger.info(`outbox: Circuit breaker is CLOSED${why}: rows are sent again`);
      else if (to === 'HALF-OPEN')
        logger.info('outbox: Circuit breaker is HALF-OPEN: one batch tests the cluster');
      else {
        const wait = `rows wait in their table for ${openMs / 1_000} s`;
        logger.info(`outbox: ${breakerOpen.message}: ${wait} (${why})`);
        onOpen();
      }
    },
  });
}

/** How often a pass begins again at the first row, to find late commits and retries. */
const restartMs = 1_000;
/** After a pass over many rows that cannot be sent, rests for this multiple of its duration. */
const restFactor = 4;
const longestRestMs = 60_000;
/** Minimum interval of reads after `wake`, because more rows may follow. */
const wakeDebounceMs = 10;
/** Limits of rows in memory, read and not acknowledged: pages and bytes. */
const maxPages = 4;
const maxBytes = 32 * 1024 * 1024;
/** Rows of the single batch that tests the cluster. */
const probeRows = 10;

interface ReaderOptions {
  readonly store: Pick<OutboxStore, 'pending' | 'failedAggregates'>;
  readonly settings: RelaySettings;
  readonly pipeline: Pipeline;
  readonly lease: Pick<ShardLease, 'shards' | 'epochOf' | 'hasNone' | 'failure'>;
  readonly breaker: Breaker;
  readonly clock: Clock;
  readonly say: QuietLog;
  readonly logger: Logger;
}

/**
 * Reads due rows by id, while the batches before are sent and acknowledged. Each read excludes only known rows. So a transaction
 * that began early and commits late cannot fall behind a later one of its aggregate. About every second a new pass begins, which
 * retries deferred rows.
 */
function createReader(options: ReaderOptions) {
  const { store, settings, pipeline, lease, breaker, clock, say, logger } = options;
  const size = createBatchSize(settings);
  const signal = createWakeup();
  let isStopped = false;
  /** All on the monotonic clock. */
  let nextReadAtMs = Number.NEGATIVE_INFINITY;
  let nextPassAtMs = Number.NEGATIVE_INFINITY;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let wakeAtMs = Number.POSITIVE_INFINITY;
  /** For a pass with too many deferred rows to exclude by id. */
  let lastId = 0;
  /** The shards of this pass. A new one needs a new pass, because this one has passed its first rows. */
  let epochs = new Map<number, number>();
  /** Time that this pass has spent on rows that cannot be sent. */
  let idleMs = 0;
  let failures = 0;
  /** A probe with other rows than the failed ones was tried, and none can be sent now. */
  let hasNoOtherRows = false;
  /** The caller of `seesAll`. `isBegun`: a read has begun that excludes only known rows. */
  let look: { isBegun: boolean; readonly end: (isSeen: boolean) => void } | undefined;

  function endLook(isSeen: boolean): void {
    look?.end(isSeen);
    look = undefined;
  }

  /** Ends `seesAll` without a read. */
  function checkLook(): void {
    if (breaker.state === 'OPEN' || failures > 0 || lease.failure !== undefined) endLook(false);
    else if (lease.hasNone) endLook(true);
  }

  async function beginPass(nowMs: number): Promise<void> {
    epochs = new Map();
    for (const shard of lease.shards()) epochs.set(shard, lease.epochOf(shard) as number);
    lastId = 0;
    idleMs = 0;
    nextPassAtMs = nowMs + restartMs;
    pipeline.newPass();
    if (settings.onFailed === 'block') pipeline.block(await store.failedAggregates([...epochs.keys()]));
  }

  function hasOtherShards(): boolean {
    const shards = lease.shards();
    return (
      shards.length !== epochs.size || shards.some((shard) => lease.epochOf(shard) !== epochs.get(shard))
    );
  }

  const isTesting = (): boolean => breaker.state === 'HALF-OPEN';

  function hasRoom(): boolean {
    if (isTesting()) return pipeline.rows === 0;
    return pipeline.rows <= (maxPages - 1) * size.mostRows && pipeline.bytes < maxBytes;
  }

  /** Milliseconds until the next read; 0: now. */
  function restMs(nowMs: number): number {
    if (breaker.state === 'OPEN') {
      const openForMs = breaker.openForMs();
      if (openForMs > 0) return openForMs;
      if (breaker.admit() !== 'probe') return 1;
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
    }
    if (lease.shards().length === 0 || !hasRoom()) return settings.pollIntervalMs;
    if (hasOtherShards()) {
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
    }
    return Math.min(nextReadAtMs, wakeAtMs) - nowMs;
  }

  /**
   * The failed rows may fail for a reason of their own: tests the cluster with other rows, if possible. Rows that wait
   * for an uncertain batch come last.
   */
  async function probe(except: ExceptRows): Promise<readonly StoredRow[]> {
    const shards = [...epochs.keys()];
    const { lastFailedRows } = pipeline;
    if (lastFailedRows.length > 0 && !hasNoOtherRows) {
      const ids = [...except.ids, ...lastFailedRows.map(({ id }) => id)];
      const keys = new Set(lastFailedRows.map(keyOf));
      const found = await store.pending(shards, { ...except, ids }, size.rows);
      const others = pipeline.toTest(
        found.filter((row) => !keys.has(keyOf(row))),
        probeRows,
      );
      if (others.length > 0) {
        pipeline.block(lastFailedRows);
        return others;
      }
    }
    const rows = await store.pending(shards, except, size.rows);
    const tests = pipeline.toTest(rows, probeRows);
    if (tests.length > 0 || rows.length === 0) return tests;
    pipeline.giveUpUncertain();
    return rows.slice(0, probeRows);
  }

  async function read(): Promise<void> {
    const nowMs = clock.monotonic();
    if (nowMs >= nextPassAtMs) await beginPass(nowMs);
    readAtMs = nowMs;
    if (wakeAtMs <= nowMs) wakeAtMs = Number.POSITIVE_INFINITY;
    const limit = isTesting() ? probeRows : size.rows;
    pipeline.startReading();
    const known = pipeline.knownIds();
    const except = known === undefined ? { upToId: lastId, ids: [] } : { upToId: 0, ids: known };
    if (look !== undefined && except.upToId === 0) look.isBegun = true;
    const reading = isTesting() ? probe(except) : store.pending([...epochs.keys()], except, limit);
    const rows = await reading.catch((error: unknown) => {
      size.failed();
      throw error;
    });
    if (isStopped) return;
    if (failures > 0) logger.info('outbox: the table is read again');
    failures = 0;
    lastId = Math.max(lastId, rows.at(-1)?.id ?? 0);
    const isFull = rows.length >= limit;
    if (!isTesting()) size.read(rows.length, bytesOf(rows));
    const isLast = isTesting() ? rows.length === 0 : !isFull;
    const begun = look?.isBegun === true;
    const taken = await pipeline.add(rows, epochs);
    if (begun && isLast) endLook(true);
    const hadNoOtherRows = hasNoOtherRows;
    hasNoOtherRows = isTesting() && taken === 0;
    if (hasNoOtherRows && !hadNoOtherRows) {
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
      return;
    }
    if (isFull && taken === 0) {
      idleMs += clock.monotonic() - nowMs;
      nextPassAtMs = Math.max(nextPassAtMs, nowMs + Math.min(idleMs * restFactor, longestRestMs));
    }
    nextReadAtMs = nowMs;
    // `seesAll` was called during this read: it needs a pass from the first row.
    if (look?.isBegun === false) nextPassAtMs = nowMs;
    if (isFull && !pipeline.isFull) return;
    // All rows are read. Only deferred and new ones remain.
    const passMs = nextPassAtMs - clock.monotonic();
    const againMs = pipeline.blocked > 0 ? passMs : Math.max(passMs, pipeline.nextPausedMs());
    nextReadAtMs = clock.monotonic() + Math.max(1, Math.min(settings.pollIntervalMs, againMs));
  }

  function nextPassIn(ms: number): void {
    const atMs = clock.monotonic() + ms;
    nextPassAtMs = Math.min(nextPassAtMs, atMs);
    if (failures === 0) wakeAtMs = Math.min(wakeAtMs, atMs);
    signal.raise();
  }

  return {
    async run(): Promise<void> {
      while (!isStopped) {
        checkLook();
        const waitMs = restMs(clock.monotonic());
        if (waitMs > 0) {
          await signal.wait(waitMs);
          continue;
        }
        try {
          await read();
        } catch (error) {
          failures++;
          endLook(false);
          const pauseMs = backoffMs(failures, firstStorePauseMs, longestStorePauseMs);
          say('read', `outbox: the table cannot be read; svc tries again: ${reasonOf(error)}`);
          nextPassAtMs = clock.monotonic() + pauseMs;
          nextReadAtMs = nextPassAtMs;
        }
      }
    },
    /** New rows exist. */
    wake(): void {
      // While the database fails, its backoff applies.
      if (failures > 0) return;
      wakeAtMs = Math.min(wakeAtMs, Math.max(clock.monotonic(), readAtMs + wakeDebounceMs));
      signal.raise();
    },
    /** Memory was freed, the breaker's state has changed, or shards were claimed. */
    recheck: signal.raise,
    /** Skipped rows are due in this many milliseconds. */
    nextPassIn,
    /**
     * Resolves with true when all rows that exist after the call are in memory, or there are no shards to read. Resolves with false
     * when the database fails, or nothing can be sent.
     */
    seesAll(): Promise<boolean> {
      const seen = new Promise<boolean>((resolve) => {
        look = { isBegun: false, end: resolve };
      });
      nextPassIn(0);
      return seen;
    },
    stop(): void {
      isStopped = true;
      endLook(false);
      signal.raise();
    },
  };
}

/** Interval of cleanups. The first one waits until the start is over. */
export const cleanupIntervalMs = 600_000;
export const firstCleanupMs = 60_000;
/** Rows of one DELETE: short transactions hold up others only briefly. */
const cleanupRows = 1_000;
/** Between two of them. */
const cleanupPauseMs = 200;

const dayMs = 86_400_000;

interface CleanupOptions {
  readonly store: Pick<OutboxStore, 'cleanup' | 'partition'>;
  readonly settings: Pick<RelaySettings, 'cleanupEnabled' | 'retentionDays' | 'failedRetentionDays'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** True: another relay does it. */
  readonly rests?: () => boolean;
}

/** Deletes old rows, one instance at a time. */
export function createCleanup({ store, settings, clock, logger, rests }: CleanupOptions) {
  const { retentionDays, failedRetentionDays } = settings;
  const say = throttledLog(logger, clock, { level: 'warn' });
  const pause = createWakeup();
  let isStopped = !settings.cleanupEnabled;

  /** Partitions of whole days are dropped. Rows a day older remain if their partition could not be dropped. */
  async function daysOfRows(): Promise<number> {
    try {
      return (await store.partition(retentionDays * dayMs)) ? retentionDays + 1 : retentionDays;
    } catch (error) {
      say('partitions', `outbox: ${reasonOf(error)}`);
      return retentionDays;
    }
  }

  async function cleanUp(status: 'PUBLISHED' | 'FAILED', days: number): Promise<void> {
    for (let deleted = cleanupRows, sum = 0; deleted >= cleanupRows && !isStopped; ) {
      deleted = await store.cleanup(status, days * dayMs, cleanupRows);
      sum += deleted;
      if (deleted >= cleanupRows) await pause.wait(cleanupPauseMs);
      else if (sum > 0) logger.debug(`outbox: old ${status} rows were deleted`, { rows: sum });
    }
  }

  return {
    /** Runs until `stop`; returns at once if disabled. */
    async run(): Promise<void> {
      let waitMs = firstCleanupMs;
      while (!isStopped) {
        await pause.wait(waitMs);
        if (isStopped) return;
        waitMs = cleanupIntervalMs;
        if (rests?.()) continue;
        try {
          await cleanUp('PUBLISHED', await daysOfRows());
          // No consumer has received these rows: 0 does not mean at once.
          if (failedRetentionDays > 0) await cleanUp('FAILED', failedRetentionDays);
        } catch (error) {
          say('cleanup', `outbox: old rows cannot be deleted; svc tries again: ${reasonOf(error)}`);
        }
      }
    },
    stop(): void {
      isStopped = true;
      pause.raise();
    },
  };
}

/** The machine's clock; the database's time if the two differ, because Kafka refuses records with a wrong timestamp. */
interface DatabaseTime extends Clock {
  /** The database reported its time. `askedAtMs`: start of that query, on the monotonic clock. */
  observe(nowMs: number, askedAtMs: number): void;
}

/** More than an answer takes, and less than any configured limit. */
const toleranceMs = 10_000;
const sayMs = 60_000;

function createDatabaseTime(clock: Clock, logger: Logger): DatabaseTime {
  const say = throttledLog(logger, clock, { intervalMs: sayMs, saysLeftOut: false });
  /** Added to the monotonic clock it gives the database's time. */
  let offsetMs: number | undefined;

  /** How far the machine's clock is ahead now. It may be set at any time. */
  const aheadMs = (): number =>
    offsetMs === undefined ? 0 : clock.now() - Math.round(clock.monotonic() + offsetMs);

  return {
    monotonic: clock.monotonic,
    now() {
      const offMs = aheadMs();
      return clock.now() - (Math.abs(offMs) > toleranceMs ? offMs : 0);
    },
    observe(nowMs, askedAtMs) {
      const heardAtMs = clock.monotonic();
      // Too imprecise: the time was taken at any point in between.
      if (heardAtMs - askedAtMs > toleranceMs) return;
      offsetMs = nowMs - (askedAtMs + heardAtMs) / 2;
      const offMs = aheadMs();
      if (!(Math.abs(offMs) > toleranceMs)) return;
      const seconds = Math.round(Math.abs(offMs) / 1_000);
      const where = offMs > 0 ? 'ahead of' : 'behind';
      say(
        'clock',
        `outbox: the clock of this machine is ${seconds} s ${where} that of the database, whose time the events get instead: correct the wrong clock`,
      );
    },
  };
}

import { backoffMs, type Clock } from '../../ground/clock.ts';
import type { Logger, QuietLog } from '../../observe/logger.ts';
import type { Breaker } from '../../publish/main/breaker.ts';
import { bytesOf, createBatchSize } from '../batches.ts';
import type { ExceptRows, OutboxStore, StoredRow } from '../outbox-store.ts';
import { keyOf } from './partition-sends.ts';
import type { Pipeline } from './pipeline.ts';
import {
  firstStorePauseMs,
  longestRestMs,
  longestStorePauseMs,
  maxBytes,
  maxPages,
  probeRows,
  type RelaySettings,
  restartMs,
  restFactor,
  wakeDebounceMs,
} from './relay-settings.ts';
import type { ShardLease } from './shard-lease.ts';
import { createSignal, reasonOf } from './signal.ts';

export interface ReaderOptions {
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
 * Reads due rows by their ids, a batch while those before it are sent and acknowledged. Each reading sees all rows but those it
 * knows: a transaction that began early and commits late must not come behind a later one of its aggregate. About every second
 * it begins a new pass, in which what was deferred is tried again.
 */
export interface Reader {
  /** Reads until `stop`. */
  run(): Promise<void>;
  /** There are new rows. */
  wake(): void;
  /** There is room, the breaker has another state, or the shards were claimed. */
  recheck(): void;
  /** Rows that were passed are to be looked at after so many milliseconds. */
  nextPassIn(ms: number): void;
  /**
   * Resolves with true when all rows that are there from now on have been taken in, or there are no shards to read; with false where the
   * database fails or nothing can be sent.
   */
  seesAll(): Promise<boolean>;
  stop(): void;
}

export function createReader(options: ReaderOptions): Reader {
  const { store, settings, pipeline, lease, breaker, clock, say, logger } = options;
  const size = createBatchSize(settings);
  const signal = createSignal();
  let isStopped = false;
  /** All on the monotonic clock. */
  let nextReadAtMs = Number.NEGATIVE_INFINITY;
  let nextPassAtMs = Number.NEGATIVE_INFINITY;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let wakeAtMs = Number.POSITIVE_INFINITY;
  /** For a pass that has met too many deferred rows to name them. */
  let lastId = 0;
  /** The shards of this pass. One that is gained would be read from the middle: it needs a pass of its own. */
  let epochs = new Map<number, number>();
  /** Time that this pass has spent on reading what cannot be sent. */
  let idleMs = 0;
  let failures = 0;
  /** Other rows than those that have just failed were looked for, and none can be sent now. */
  let hasNoOtherRows = false;
  /** Who waits until all rows are seen: `isBegun` from the first reading on that leaves out none but those known. */
  let look: { isBegun: boolean; readonly end: (isSeen: boolean) => void } | undefined;

  function endLook(isSeen: boolean): void {
    look?.end(isSeen);
    look = undefined;
  }

  /** What ends a look without a reading. */
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

  /** Milliseconds until there is something to do; 0: now. */
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

  /** What has just failed may fail again for a reason of its own: the cluster is tested with other rows, if there are some. */
  async function probe(except: ExceptRows): Promise<readonly StoredRow[]> {
    const shards = [...epochs.keys()];
    const { lastFailedRows } = pipeline;
    if (lastFailedRows.length > 0 && !hasNoOtherRows) {
      const ids = [...except.ids, ...lastFailedRows.map(({ id }) => id)];
      const keys = new Set(lastFailedRows.map(keyOf));
      const found = await store.pending(shards, { ...except, ids }, size.rows);
      const others = found.filter((row) => !keys.has(keyOf(row))).slice(0, probeRows);
      if (others.length > 0) {
        pipeline.block(lastFailedRows);
        return others;
      }
    }
    return store.pending(shards, except, probeRows);
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
    // Who came while this one was on its way waits for one from the first row on.
    if (look?.isBegun === false) nextPassAtMs = nowMs;
    if (isFull && !pipeline.isFull) return;
    // The end: what is left to do is what was deferred, and what comes.
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
    async run() {
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
          say('read', `outbox: the table cannot be read, and is tried again: ${reasonOf(error)}`);
          nextPassAtMs = clock.monotonic() + pauseMs;
          nextReadAtMs = nextPassAtMs;
        }
      }
    },
    wake() {
      // While the database fails, its pause stands.
      if (failures > 0) return;
      wakeAtMs = Math.min(wakeAtMs, Math.max(clock.monotonic(), readAtMs + wakeDebounceMs));
      signal.raise();
    },
    recheck: signal.raise,
    nextPassIn,
    seesAll() {
      const seen = new Promise<boolean>((resolve) => {
        look = { isBegun: false, end: resolve };
      });
      nextPassIn(0);
      return seen;
    },
    stop() {
      isStopped = true;
      endLook(false);
      signal.raise();
    },
  };
}

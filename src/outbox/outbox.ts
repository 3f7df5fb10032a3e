import { isMainThread, type Worker } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { nextTurn } from '../ground/builtins.ts';
import { backoffMs, clock, inTime, within } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import { openChannel } from '../observe/thread-counts.ts';
import type { Broker } from '../publish/broker.ts';
import { type Dialect, dialectOf, dialects } from '../transaction/driver.ts';
import { erasesRows, rowStatements } from './insert-row.ts';
import { createNotifier, createOutboxJoin, createSameTable } from './join.ts';
import { breakerOf, manageOutbox, tellUnjoined, watchSenders } from './outbox-health.ts';
import { checkRow, type OutboxRow, shardOf } from './outbox-row.ts';
import type { Notices, OutboxStore } from './outbox-store.ts';
import { openRelay, type Relay, type RelayCounters, reasonOf } from './relay/relay.ts';
import { isPassing } from './store-error.ts';

interface OutboxParts extends RelayCounters {
  /** Opens the table. The scheme of `url` selects the database. */
  readonly openStore: (
    options: Pick<Config['outbox'], 'table' | 'initializeSchema'> & {
      readonly url: string;
      readonly erases: boolean;
    },
  ) => OutboxStore;
  readonly broker: Broker;
}

/** The outbox of a process: it writes events within the application's transactions, and relays the rows. */
export function createOutbox(config: Config, { openStore, broker, ...counters }: OutboxParts) {
  const { enabled, datasource, table, initializeSchema, onNoTransaction, publisherEnabled, retentionDays } =
    config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const erases = erasesRows(config.outbox);
  const store = openStore({ url: datasource.url, table, initializeSchema, erases });
  // Once per process: drivers cache a prepared statement by its text.
  const statements = Object.fromEntries(
    dialects.map((dialect) => [dialect, rowStatements(table, dialect)]),
  ) as Record<Dialect, ReturnType<typeof rowStatements>>;
  const dialect = dialectOf(datasource.url) ?? 'postgres';
  const senders = watchSenders({
    ...{ store, isRelay: publisherEnabled },
    settings: { dialect, table, publisherEnabled, retentionDays },
  });
  const { maxWaitMs } = config.broker;
  const makesTables = initializeSchema === 'always';
  const preparation = prepareStore({ store, senders, makesTables, maxWaitMs });
  let unconfirmed = 0;
  const unjoined = tellUnjoined();
  // One relay serves all threads.
  const relay =
    publisherEnabled && isMainThread
      ? runRelay(
          async () => {
            await preparation.tried;
            return openRelay(config, store, broker, counters);
          },
          (error) => logger.error(`outbox: ${error.message}`),
        )
      : undefined;

  /** Rows that svc inserts itself. No connection of the application keeps the process alive for them. */
  const writing = new Set<Promise<void>>();
  function storeAlone(row: OutboxRow): Promise<void> {
    checkRow(row, dialect);
    // The first event may come before the table exists.
    const written = isolate(async () => {
      await preparation.tried;
      await preparation.ready();
      await store.insert([row]);
    });
    writing.add(written);
    const done = (): void => void writing.delete(written);
    written.then(done, done);
    return written;
  }

  // A connector reads the log of the database, so nothing listens for notices.
  const stored = tellOfRows(relay, erases ? undefined : store.notices);
  const sameTable = createSameTable({
    ...{ store, table, deletesAtOnce: retentionDays === 0 },
    dialect,
  });
  const join = createOutboxJoin({
    insert: (dialect, row) => statements[dialect].insert(row),
    erase: erases ? (dialect, row) => statements[dialect].erase?.(row) : undefined,
    // SQLite tables were made before the application's first tick, and its drivers are synchronous.
    ready: dialect === 'sqlite' ? undefined : preparation.ready,
    maxPacketBytes: senders.maxPacketBytes,
    sameTable,
    autocommit: onNoTransaction === 'autocommit' ? storeAlone : undefined,
    onStored: (row) => stored.tell(shardOf(row)),
    onUnjoined: unjoined.tell,
    onUnconfirmed: () => void unconfirmed++,
  });
  const managed = manageOutbox(config, store, broker, () => relay?.state(), {
    problem: () => sameTable.problem() ?? senders.refusal()?.message,
    remark: () => senders.remark() ?? unjoined.remark(),
    isReady: preparation.isReady,
  });
  return {
    join,
    managed,
    /** The circuit breaker of this process's relay. */
    breaker: () => breakerOf(relay),
    state: managed.state({ unconfirmed: () => unconfirmed, unjoined: unjoined.count }),
    /** Whether `finish` has something to do. */
    isUnfinished: (): boolean => writing.size > 0 || (relay?.isUnfinished() ?? false),
    /** Sends and acknowledges what is committed, and releases the shards. Resolves to whether that is done. */
    async finish(deadlineMs: number): Promise<boolean> {
      const endMs = clock.monotonic() + deadlineMs;
      if (writing.size > 0) {
        const isWritten = await within(deadlineMs, Promise.allSettled(writing));
        if (!isWritten) return false;
        // The relay has been told of the rows one tick later.
        await nextTurn();
      }
      return (await relay?.finish(Math.max(0, endMs - clock.monotonic()))) ?? true;
    },
    async close(deadlineMs: number): Promise<void> {
      preparation.stop();
      senders.stop();
      stored.close();
      managed.close();
      await relay?.close(deadlineMs);
      await store.close(deadlineMs);
    },
  };
}

/** A process that goes on restarts its relay after this long, or when it commits a row. */
const restartMs = 1_000;

/** Time limit of a relay without rows: releasing shards is not worth more. */
const idleFinishMs = 500;

type RelayInProcess = Pick<ReturnType<typeof runRelay>, 'wake' | 'holds'>;

/** The relay in the process of an application. It finishes whenever the process may end, and restarts if the process goes on. */
function runRelay(open: () => Promise<Relay>, onFailed: (error: Error) => void) {
  let relay: Relay | undefined;
  let opening: Promise<void> | undefined;
  let finishing: Promise<boolean> | undefined;
  let restart: NodeJS.Timeout | undefined;
  let hasStored = false;
  let isClosed = false;

  async function start(): Promise<void> {
    try {
      const opened = await open();
      if (isClosed) return;
      relay = opened;
      relay.start();
    } catch (error) {
      onFailed(error as Error);
    } finally {
      opening = undefined;
    }
  }

  function ensure(): void {
    clearTimeout(restart);
    if (!isClosed && relay === undefined && finishing === undefined) opening ??= start();
  }

  async function finish(deadlineMs: number): Promise<boolean> {
    const endMs = clock.monotonic() + deadlineMs;
    const isOwn = hasStored;
    if (isOwn && opening !== undefined) await within(deadlineMs, opening);
    if (relay === undefined) return !isOwn;
    hasStored = false;
    const leftMs = Math.max(0, endMs - clock.monotonic());
    const { published, failed } = relay.state().processed;
    const isIdle = !isOwn && published + failed === 0;
    const isDone = isOwn
      ? await relay.finish(leftMs)
      : await relay.stop(isIdle ? Math.min(leftMs, idleFinishMs) : leftMs);
    relay = undefined;
    return isDone;
  }

  ensure();
  return {
    /** A row of this process was committed. */
    wake(): void {
      hasStored = true;
      if (finishing === undefined) relay?.wake();
      ensure();
    },
    /** Whether this relay holds the shard. */
    holds: (shard: number): boolean => relay?.holds(shard) ?? false,
    state: () => relay?.state(),
    resetBreaker: () => relay?.resetBreaker(),
    /** Whether there is something to finish: shards to release, or rows of this process to send. */
    isUnfinished: (): boolean => !isClosed && (relay !== undefined || hasStored),
    /** Sends the committed rows of this process and releases the shards. Resolves to whether that is complete. */
    finish(deadlineMs: number): Promise<boolean> {
      finishing ??= finish(deadlineMs).finally(() => {
        finishing = undefined;
        // The process may go on. If not, neither of these keeps it alive.
        if (hasStored) ensure();
        else if (!isClosed && relay === undefined) restart = setTimeout(ensure, restartMs).unref();
      });
      return finishing;
    },
    /** Ends it for good. */
    async close(deadlineMs: number): Promise<void> {
      isClosed = true;
      clearTimeout(restart);
      await finishing;
      await opening;
      await relay?.stop(deadlineMs);
    },
  };
}

const channelName = 'svc.outbox.stored';

/** Tells the relay of this process of every row, and other relays of rows in their shards. */
export function tellOfRows(relay: RelayInProcess | undefined, notices: Notices | undefined) {
  return isMainThread ? tellRelays(relay, notices) : tellMainThread();
}

/** The relay and the connection for notices are in the main thread. */
function tellMainThread() {
  const channel = openChannel(channelName);
  return { tell: (shard: number): void => channel.postMessage(shard), close: () => channel.close() };
}

function tellRelays(relay: RelayInProcess | undefined, notices: Notices | undefined) {
  const notifier = notices && createNotifier(notices);
  let channel: ReturnType<typeof openChannel> | undefined;

  function tell(shard: number): void {
    relay?.wake();
    if (relay?.holds(shard) !== true) notifier?.add(shard);
  }

  function onWorker(worker: Worker): void {
    if (channel === undefined) {
      channel = openChannel(channelName);
      channel.onmessage = (event) => tell((event as { data: number }).data);
    }
    // The last message of a worker may be lost.
    worker.once('exit', () => relay?.wake());
  }

  process.on('worker', onWorker);
  return {
    tell,
    close() {
      process.removeListener('worker', onWorker);
      channel?.close();
      notifier?.stop();
    },
  };
}

const firstPauseMs = 1_000;

const longestPauseMs = 30_000;

/** Prepares the tables. Retries while the database is away or read-only. Other errors are logged once. */
export function prepareStore({
  store,
  senders,
  makesTables,
  maxWaitMs,
}: {
  readonly store: Pick<OutboxStore, 'prepare'>;
  /** Checks that the tables fit the settings, once they exist. */
  readonly senders: Pick<ReturnType<typeof watchSenders>, 'look' | 'refusal'>;
  /** This process makes missing tables. */
  readonly makesTables: boolean;
  /** The longest wait of an event for the tables. */
  readonly maxWaitMs: number;
}) {
  let failures = 0;
  let failedAtMs = 0;
  let isPrepared = false;
  let isGivenUp = false;
  let inFlight: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function attempt(): Promise<void> {
    try {
      await store.prepare();
    } catch (error) {
      if (isGivenUp) return;
      failedAtMs = clock.monotonic();
      if (failures++ === 0) logger.error(`outbox: ${reasonOf(error)}`);
      isGivenUp = !isPassing(error);
      if (!isGivenUp) timer = setTimeout(begin, backoffMs(failures, firstPauseMs, longestPauseMs)).unref();
      return;
    }
    if (!isGivenUp) await senders.look();
    isPrepared = true;
  }

  function begin(): Promise<void> {
    clearTimeout(timer);
    inFlight = isolate(attempt).finally(() => {
      inFlight = undefined;
    });
    return inFlight;
  }

  function refuse(): void {
    const refusal = senders.refusal();
    if (refusal !== undefined) throw new SvcError(refusal.code, refusal.message);
  }

  const tried = begin();
  return {
    /** Resolves after the first attempt, whether it succeeded or not. */
    tried,
    /**
     * Call before a row is written. `undefined`: write now. Otherwise wait for the promise, at most `maxWaitMs`: the tables are being
     * checked or made. Throws or rejects if the event would be lost.
     */
    ready(): Promise<void> | undefined {
      refuse();
      if (isPrepared || isGivenUp) return undefined;
      if (failures > 0 && !makesTables) return undefined;
      // The application has reached its database, so the rest of a long pause is skipped.
      const isPause = inFlight === undefined && clock.monotonic() - failedAtMs < firstPauseMs;
      if (isPause) return undefined;
      const looked = (inFlight ?? begin()).then(refuse);
      // The store's connections are unref'd. If the application loses its own meanwhile, nothing else keeps the process.
      return inTime(looked, { limitMs: maxWaitMs, keepsAlive: true, late: () => undefined });
    },
    /** False while this process still makes the tables. */
    isReady: (): boolean => isPrepared || !makesTables,
    /** Stops the retries. */
    stop(): void {
      isGivenUp = true;
      clearTimeout(timer);
    },
  };
}

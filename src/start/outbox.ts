import { isMainThread } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { nextTurn } from '../ground/builtins.ts';
import { systemClock, within } from '../ground/clock.ts';
import type { Logger } from '../observe/logger.ts';
import type { OutboxState } from '../observe/metrics.ts';
import { isolate } from '../observe/otel-api.ts';
import { eraseStatement, erasesRows, eraseValues } from '../outbox/erase-row.ts';
import { insertionFor } from '../outbox/insert-row.ts';
import { createOutboxJoin, createSameTable, type OutboxJoin } from '../outbox/join.ts';
import { checkRow, type OutboxRow, shardOf } from '../outbox/outbox-row.ts';
import type { RelayCounters } from '../outbox/relay/pipeline.ts';
import type { Broker } from '../publish/broker.ts';
import { type Dialect, dialectOf, dialects } from '../transaction/driver.ts';
import { openOutboxStore } from './adapters.ts';
import type { ResettableBreaker } from './management.ts';
import { openRelay } from './outbox/open-relay.ts';
import {
  breakerOf,
  type ManagedOutbox,
  manageOutbox,
  outboxState,
  prepareStore,
} from './outbox/outbox-health.ts';
import { runRelay, tellOfRows } from './outbox/relay-alone.ts';
import { tellUnjoined, watchSenders } from './outbox/senders.ts';

/** The outbox of a process: it writes events within the application's transactions, and relays the rows. */
export interface StartedOutbox {
  readonly join: OutboxJoin;
  readonly state: OutboxState;
  readonly managed: ManagedOutbox;
  /** The circuit breaker of this process's relay. */
  breaker(): ResettableBreaker | undefined;
  /** Whether `finish` has something to do. */
  isUnfinished(): boolean;
  /** Sends and acknowledges what is committed, and releases the shards. Resolves to whether that is done. */
  finish(deadlineMs: number): Promise<boolean>;
  close(deadlineMs: number): Promise<void>;
}

export function startOutbox(
  config: Config,
  broker: Broker,
  counters: RelayCounters,
  logger: Logger,
): StartedOutbox | undefined {
  const { enabled, datasource, table, initializeSchema, onNoTransaction, publisherEnabled, retentionDays } =
    config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const erases = erasesRows(config.outbox);
  const store = openOutboxStore({
    ...{ url: datasource.url, table, initializeSchema, logger },
    erases,
  });
  // Once per process: drivers cache a prepared statement by its text.
  const insertions = Object.fromEntries(
    dialects.map((dialect) => [dialect, insertionFor(table, dialect)]),
  ) as Record<Dialect, ReturnType<typeof insertionFor>>;
  const erasures = new Map(dialects.map((dialect) => [dialect, eraseStatement(table, dialect)]));
  const dialect = dialectOf(datasource.url) ?? 'postgres';
  const senders = watchSenders({
    ...{ store, isRelay: publisherEnabled, logger },
    settings: { dialect, table, publisherEnabled, retentionDays },
  });
  const { maxWaitMs } = config.broker;
  const makesTables = initializeSchema === 'always';
  const preparation = prepareStore({ store, senders, makesTables, maxWaitMs, logger });
  let unconfirmed = 0;
  const unjoined = tellUnjoined(logger);
  // One relay serves all threads.
  const relay =
    publisherEnabled && isMainThread
      ? runRelay(
          () => preparation.tried.then(() => openRelay(config, store, broker, counters, logger)),
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
    ...{ store, table, isolate, logger, deletesAtOnce: retentionDays === 0 },
    dialect,
  });
  const join = createOutboxJoin({
    insert: (dialect, row) => insertions[dialect](row),
    erase: erases
      ? (dialect, row) => {
          const text = erasures.get(dialect);
          return text === undefined ? undefined : { text, values: eraseValues(row) };
        }
      : undefined,
    // SQLite tables were made before the application's first tick, and its drivers are synchronous.
    ready: dialect === 'sqlite' ? undefined : preparation.ready,
    maxPacketBytes: senders.maxPacketBytes,
    sameTable,
    autocommit: onNoTransaction === 'autocommit' ? storeAlone : undefined,
    onStored: (row) => stored.tell(shardOf(row)),
    onUnjoined: unjoined.tell,
    onUnconfirmed: () => void unconfirmed++,
  });
  const managed = manageOutbox(config, store, broker, logger, () => relay?.state(), {
    problem: () => sameTable.problem() ?? senders.refusal()?.message,
    remark: () => senders.remark() ?? unjoined.remark(),
    isReady: preparation.isReady,
  });
  return {
    join,
    managed,
    breaker: () => breakerOf(relay),
    state: outboxState({
      relay: () => relay?.state(),
      oldestPendingMs: managed.oldestPendingMs,
      failed: managed.failed,
      unconfirmed: () => unconfirmed,
      unjoined: unjoined.count,
    }),
    isUnfinished: () => writing.size > 0 || (relay?.isUnfinished() ?? false),
    async finish(deadlineMs) {
      const endMs = systemClock.monotonic() + deadlineMs;
      if (writing.size > 0) {
        const isWritten = await within(deadlineMs, Promise.allSettled(writing));
        if (!isWritten) return false;
        // The relay has been told of the rows one tick later.
        await nextTurn();
      }
      return (await relay?.finish(Math.max(0, endMs - systemClock.monotonic()))) ?? true;
    },
    async close(deadlineMs) {
      preparation.stop();
      senders.stop();
      stored.close();
      managed.close();
      await relay?.close(deadlineMs);
      await store.close(deadlineMs);
    },
  };
}

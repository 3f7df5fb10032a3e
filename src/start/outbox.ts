import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isMainThread } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { systemClock } from '../ground/clock.ts';
import { isolate } from '../observe/isolate.ts';
import type { Logger } from '../observe/logger.ts';
import type { OutboxState } from '../observe/metrics.ts';
import { insertStatement, insertValues } from '../outbox/insert-row.ts';
import { createOutboxJoin, type OutboxJoin } from '../outbox/join.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { Relay } from '../outbox/relay/relay.ts';
import type { Broker } from '../publish/broker.ts';
import { circuitStates } from '../publish/main/breaker.ts';
import { type Dialect, dialects } from '../transaction/dialect.ts';
import { openOutboxStore } from './adapters.ts';
import { type ManagedOutbox, manageOutbox } from './outbox/managed-outbox.ts';

/** The outbox of a process: the way of events into the application's transactions, and out of the table. */
export interface StartedOutbox {
  readonly join: OutboxJoin;
  readonly state: OutboxState;
  readonly managed: ManagedOutbox;
  /** Sends what is committed, acknowledges it, and lets other relays have its shards. */
  finish(deadlineMs: number): Promise<void>;
  close(deadlineMs: number): Promise<void>;
}

export function startOutbox(config: Config, broker: Broker, logger: Logger): StartedOutbox | undefined {
  const { enabled, datasource, table, initializeSchema, onNoTransaction, publisherEnabled } = config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const store = openOutboxStore({ url: datasource.url, table, initializeSchema, logger });
  // Once per process: a driver prepares it by its text.
  const texts = new Map(
    dialects.map((dialect): [Dialect, string] => [dialect, insertStatement(table, dialect)]),
  );
  const prepared = isolate(() => store.prepare()).catch((error: Error) =>
    logger.error(`outbox: ${error.message}`),
  );
  let unconfirmed = 0;
  let relay: Relay | undefined;
  // One relay is enough for all threads.
  const starting = publisherEnabled && isMainThread ? startRelay() : undefined;

  async function startRelay(): Promise<void> {
    await prepared;
    relay = await openRelay(config, store, broker, logger);
    relay.start();
  }

  const join = createOutboxJoin({
    insert: (dialect, row) => ({ text: texts.get(dialect) ?? '', values: insertValues(row) }),
    autocommit: onNoTransaction === 'autocommit' ? (row) => isolate(() => store.insert([row])) : undefined,
    onStored: () => relay?.wake(),
    onUnconfirmed: () => void unconfirmed++,
  });
  const managed = manageOutbox(config, store, broker, () => relay?.state());
  return {
    join,
    managed,
    state: {
      pending: () => relay?.state().pending ?? null,
      oldestPendingMs: managed.oldestPendingMs,
      processed: () => relay?.state().processed ?? { published: 0, failed: 0 },
      unconfirmed: () => unconfirmed,
      circuit: () => (relay === undefined ? null : circuitStates.indexOf(relay.state().circuitBreakerState)),
    },
    async finish(deadlineMs) {
      await relay?.stop(deadlineMs);
    },
    async close(deadlineMs) {
      managed.close();
      await starting;
      await relay?.stop(deadlineMs);
      await store.close(deadlineMs);
    },
  };
}

async function openRelay(config: Config, store: OutboxStore, broker: Broker, logger: Logger): Promise<Relay> {
  const { outbox } = config;
  const { createRelay } = await import('../outbox/relay/relay.ts');
  return createRelay({
    ...{ store, broker, logger, isolate, clock: systemClock },
    owner: `${hostname()}:${process.pid}:${randomUUID()}`,
    settings: {
      batchSize: outbox.batchSize,
      pollIntervalMs: outbox.pollIntervalMs,
      maxRetries: outbox.maxRetries,
      sendTimeoutMs: outbox.sendTimeoutSeconds * 1000,
      retentionDays: outbox.retentionDays,
      failedRetentionDays: outbox.failedRetentionDays,
      cleanupEnabled: outbox.cleanupEnabled,
      dynamicBatching: outbox.dynamicBatchingEnabled,
      circuitBreaker: outbox.circuitBreakerEnabled,
    },
  });
}

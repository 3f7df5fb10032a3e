import { once } from 'node:events';
import { isMainThread, type Worker } from 'node:worker_threads';
import type { Config } from '../../config/config.ts';
import { readSource } from '../../context/source.ts';
import { sleep } from '../../ground/builtins.ts';
import { backoffMs, systemClock, within } from '../../ground/clock.ts';
import { version } from '../../ground/version.ts';
import type { Logger } from '../../observe/logger.ts';
import type { MetricSources, OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import { createLedger, createPublishDurations } from '../../observe/outcomes.ts';
import { type Channel, openChannel } from '../../observe/thread-counts.ts';
import { createNotifier } from '../../outbox/join.ts';
import type { Notices } from '../../outbox/notices.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { firstStorePauseMs, longestStorePauseMs, reasonOf } from '../../outbox/relay/pacing.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import { isPassing } from '../../outbox/store-error.ts';
import { type Broker, throttledMs } from '../../publish/broker.ts';
import { dialectOf } from '../../transaction/driver.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { manageLater } from '../management-later.ts';
import { openSerde } from '../serde.ts';
import { brokerSettingsOf, placeOf, storedTypesOf } from '../settings.ts';
import { openRelay } from './open-relay.ts';
import { breakerOf, manageOutbox, outboxState } from './outbox-health.ts';
import { watchSenders } from './senders.ts';

const holdMs = 60_000;
const closeMs = 5_000;

/**
 * Runs the relay without its application until `stopping`, with the management server, through outages of the database and the broker.
 * Resolves to whether everything in flight was sent and acknowledged. Rejects with a one-line error if it cannot start: tables are
 * missing, or the user lacks permissions.
 */
export async function relayAlone(config: Config, logger: Logger, stopping: AbortSignal): Promise<boolean> {
  // Keeps the process alive, because connections are unref'd.
  const hold = setInterval(() => {}, holdMs);
  const { datasource, table, initializeSchema } = config.outbox;
  const store = openOutboxStore({ url: datasource.url ?? '', table, initializeSchema, logger });
  const broker = openSerde(config, logger).sends(
    openBroker(config.broker.client, brokerSettingsOf(config, logger)),
  );
  let relay: Relay | undefined;
  const counters = { ledger: createLedger(), durations: createPublishDurations() };
  counters.ledger.declare(storedTypesOf(config));
  const { publisherEnabled, retentionDays } = config.outbox;
  const senders = watchSenders({
    ...{ store, isRelay: true, logger },
    settings: {
      dialect: dialectOf(datasource.url ?? '') ?? 'postgres',
      table,
      publisherEnabled,
      retentionDays,
    },
  });
  const outbox = manageOutbox(config, store, broker, logger, () => relay?.state(), {
    problem: () => senders.refusal()?.message,
    remark: senders.remark,
  });
  const source = readSource(config.service);
  const management = manageLater(config, logger, {
    ...{ broker, outbox, problem: () => undefined },
    onAway: () => {},
    breakers: { outbox: () => breakerOf(relay) },
    keys: () => [],
    invalidateKeys: async () => {},
    sources: sourcesOf(
      counters,
      outboxState({
        relay: () => relay?.state(),
        oldestPendingMs: outbox.oldestPendingMs,
        failed: outbox.failed,
        unconfirmed: () => 0,
        unjoined: () => 0,
      }),
      broker,
    ),
    info: { service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } },
  });
  try {
    await prepare(store, logger, stopping);
    await senders.look();
    const refusal = senders.refusal();
    if (refusal !== undefined) throw refusal;
    if (stopping.aborted) return true;
    relay = await openRelay(config, store, broker, counters, logger);
    relay.start();
    logger.info(
      `relay: sends the rows of ${table} (${store.name}) to ${placeOf(config) ?? config.broker.client}`,
    );
    void sayBroker(broker, logger);
    if (!stopping.aborted) await once(stopping, 'abort');
    logger.info('relay: stops after the current batch');
    const { timeoutMs } = config.shutdown;
    const [isDone] = await Promise.all([relay.stop(timeoutMs), management.stopRuns(timeoutMs)]);
    return isDone;
  } finally {
    senders.stop();
    outbox.close();
    await Promise.all([store.close(closeMs), broker.close(closeMs), management.close()]);
    clearInterval(hold);
  }
}

/** Retries while the database is away or read-only, since it may become the primary. Other errors need an operator. */
async function prepare(store: OutboxStore, logger: Logger, stopping: AbortSignal): Promise<void> {
  for (let failures = 1; !stopping.aborted; failures++) {
    try {
      return await isolate(() => store.prepare());
    } catch (error) {
      if (!isPassing(error)) throw error;
      logger.warn(`relay: waits for the database: ${reasonOf(error)}`);
      const pauseMs = backoffMs(failures, firstStorePauseMs, longestStorePauseMs);
      await sleep(pauseMs, undefined, { signal: stopping }).catch(() => {});
    }
  }
}

/** Reports a wrong password at the start rather than at the first row. */
async function sayBroker(broker: Broker, logger: Logger): Promise<void> {
  const result = await isolate(() => broker.connect());
  if (!result.ok) logger.error(`broker: ${result.failure.message}`, { cause: result.failure.cause });
}

/** Nothing is captured here, so counts of calls stay 0. */
function sourcesOf(
  counters: Pick<MetricSources, 'ledger' | 'durations'>,
  outbox: OutboxState,
  broker: Broker,
): MetricSources {
  return {
    ...counters,
    throttledMs: () => throttledMs(broker),
    circuit: () => 0,
    buffer: () => ({ events: 0, bytes: 0, overflows: 0 }),
    backup: () => ({ files: 0, events: 0, bytes: 0, tooLarge: 0, drained: 0, oldestMs: 0 }),
    worker: () => undefined,
    captureTargets: () => [],
    lastPublishedMs: () => null,
    dlqWaiting: () => null,
    recentDlqEvents: () => [],
    outbox,
  };
}

/** The relay in the process of an application. It finishes whenever the process may end, and restarts if the process goes on. */
export interface RelayInProcess {
  /** A row of this process was committed. */
  wake(): void;
  /** Whether this relay holds the shard. */
  holds(shard: number): boolean;
  state(): RelayState | undefined;
  resetBreaker(): void;
  /** Whether there is something to finish: shards to release, or rows of this process to send. */
  isUnfinished(): boolean;
  /** Sends the committed rows of this process and releases the shards. Resolves to whether that is complete. */
  finish(deadlineMs: number): Promise<boolean>;
  /** Ends it for good. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that goes on restarts its relay after this long, or when it commits a row. */
const restartMs = 1_000;
/** Time limit of a relay without rows: releasing shards is not worth more. */
const idleFinishMs = 500;

export function runRelay(open: () => Promise<Relay>, onFailed: (error: Error) => void): RelayInProcess {
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
    const endMs = systemClock.monotonic() + deadlineMs;
    const isOwn = hasStored;
    if (isOwn && opening !== undefined) await within(deadlineMs, opening);
    if (relay === undefined) return !isOwn;
    hasStored = false;
    const leftMs = Math.max(0, endMs - systemClock.monotonic());
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
    wake() {
      hasStored = true;
      if (finishing === undefined) relay?.wake();
      ensure();
    },
    holds: (shard) => relay?.holds(shard) ?? false,
    state: () => relay?.state(),
    resetBreaker: () => relay?.resetBreaker(),
    isUnfinished: () => !isClosed && (relay !== undefined || hasStored),
    finish(deadlineMs) {
      finishing ??= finish(deadlineMs).finally(() => {
        finishing = undefined;
        // The process may go on. If not, neither of these keeps it alive.
        if (hasStored) ensure();
        else if (!isClosed && relay === undefined) restart = setTimeout(ensure, restartMs).unref();
      });
      return finishing;
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(restart);
      await finishing;
      await opening;
      await relay?.stop(deadlineMs);
    },
  };
}

const channelName = 'svc.outbox.stored';

/** Reports rows that this thread has committed. */
export interface StoredRows {
  tell(shard: number): void;
  close(): void;
}

/** Tells the relay of this process of every row, and other relays of rows in their shards. */
export function tellOfRows(
  relay: Pick<RelayInProcess, 'wake' | 'holds'> | undefined,
  notices: Notices | undefined,
): StoredRows {
  return isMainThread ? tellRelays(relay, notices) : tellMainThread();
}

/** The relay and the connection for notices are in the main thread. */
function tellMainThread(): StoredRows {
  const channel = openChannel(channelName);
  return { tell: (shard) => channel.postMessage(shard), close: () => channel.close() };
}

function tellRelays(
  relay: Pick<RelayInProcess, 'wake' | 'holds'> | undefined,
  notices: Notices | undefined,
): StoredRows {
  const notifier = notices && createNotifier({ notices, clock: systemClock, isolate });
  let channel: Channel | undefined;

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

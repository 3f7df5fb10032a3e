import { once } from 'node:events';
import type { Config } from '../../config/config.ts';
import { readSource } from '../../context/source.ts';
import { sleep } from '../../ground/builtins.ts';
import { backoffMs } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOwnCopy } from '../../ground/files.ts';
import { version } from '../../ground/version.ts';
import { logger } from '../../observe/logger.ts';
import type { MetricSources, OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import { createLedger, createPublishDurations } from '../../observe/outcomes.ts';
import { breakerOf, manageOutbox, openReplay, watchSenders } from '../../outbox/outbox-health.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { openRelay, type Relay, reasonOf, storePauseMs } from '../../outbox/relay/relay.ts';
import type { ReplayRequest, ReplayResult } from '../../outbox/replay.ts';
import { isPassing, packageMissing } from '../../outbox/store-error.ts';
import { type Broker, throttledMs } from '../../publish/broker.ts';
import { type Dialect, dialectOf } from '../../transaction/driver.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { manageLater } from '../management-later.ts';
import { openSerde } from '../serde.ts';
import { placeOf, storedTypesOf } from '../settings.ts';

const holdMs = 60_000;
const closeMs = 5_000;

/**
 * Runs the relay without its application until `stopping`, with the management server, through outages of the database and the broker.
 * Resolves to whether everything in flight was sent and acknowledged. Rejects with a one-line error if it cannot start: tables are
 * missing, or the user lacks permissions.
 */
export async function relayAlone(config: Config, stopping: AbortSignal): Promise<boolean> {
  // Keeps the process alive, because connections are unref'd.
  const hold = setInterval(() => {}, holdMs);
  const { datasource, table, initializeSchema } = config.outbox;
  const store = openOutboxStore({ url: datasource.url ?? '', table, initializeSchema });
  const broker = openSerde(config).sends(openBroker(config));
  let relay: Relay | undefined;
  const counters = { ledger: createLedger(), durations: createPublishDurations() };
  counters.ledger.declare(storedTypesOf(config));
  const { publisherEnabled, retentionDays } = config.outbox;
  const senders = watchSenders({
    ...{ store, isRelay: true },
    settings: {
      dialect: dialectOf(datasource.url ?? '') ?? 'postgres',
      table,
      publisherEnabled,
      retentionDays,
    },
  });
  const outbox = manageOutbox(config, store, broker, () => relay?.state(), {
    problem: () => senders.refusal()?.message,
    remark: senders.remark,
  });
  const source = readSource(config.service);
  const management = manageLater(config, {
    ...{ broker, outbox, problem: () => undefined },
    onAway: () => {},
    breakers: { outbox: () => breakerOf(relay) },
    keys: () => [],
    invalidateKeys: async () => {},
    sources: sourcesOf(counters, outbox.state({ unconfirmed: () => 0, unjoined: () => 0 }), broker),
    info: { service: { name: source.serviceName, version: source.serviceVersion }, svc: { version } },
  });
  try {
    await prepare(store, stopping);
    await senders.look();
    const refusal = senders.refusal();
    if (refusal !== undefined) throw refusal;
    if (stopping.aborted) return true;
    relay = openRelay(config, store, broker, counters);
    relay.start();
    logger.info(
      `relay: sends the rows of ${table} (${store.name}) to ${placeOf(config) ?? config.broker.client}`,
    );
    void sayBroker(broker);
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
async function prepare(store: OutboxStore, stopping: AbortSignal): Promise<void> {
  for (let failures = 1; !stopping.aborted; failures++) {
    try {
      return await isolate(() => store.prepare());
    } catch (error) {
      if (!isPassing(error)) throw error;
      logger.warn(`relay: waits for the database: ${reasonOf(error)}`);
      const pauseMs = backoffMs(failures, storePauseMs.first, storePauseMs.longest);
      await sleep(pauseMs, undefined, { signal: stopping }).catch(() => {});
    }
  }
}

/** Reports a wrong password at the start rather than at the first row. */
async function sayBroker(broker: Broker): Promise<void> {
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

/** A command counts large tables and may wait for locks, so it has more time than a relay, which blocks others. */
const timeoutMs = 30_000;

interface UseOptions {
  /** `prepare` makes and updates the tables. Default: it only checks them. */
  readonly makesTables?: boolean;
  /** Tables are made with a partition for each day. */
  readonly partitioned?: boolean;
}

/** Opens the outbox of a configuration for one command. Rejects with one-line errors, or as `work` does. */
export async function useOutbox<T>(
  { outbox: { datasource, table } }: Config,
  work: (store: OutboxStore) => Promise<T>,
  { makesTables = false, partitioned = false }: UseOptions = {},
): Promise<T> {
  // Keeps the process alive, because connections are unref'd.
  const hold = setInterval(() => {}, holdMs);
  const initializeSchema = makesTables ? 'always' : 'never';
  const store = openOutboxStore({
    ...{ url: datasource.url ?? '', table, initializeSchema, timeoutMs, partitioned },
  });
  try {
    return await isolate(() => work(store));
  } finally {
    await store.close(closeMs);
    clearInterval(hold);
  }
}

interface RunningReplay {
  readonly result: Promise<ReplayResult>;
  /** Stops after the current batch. */
  stop(): void;
}

/** Replays rows from the command line. */
export function replayOutbox(
  config: Config,
  request: ReplayRequest,
  onProgress: (sentCount: number, failedCount: number) => void,
): RunningReplay {
  const stopping = new AbortController();
  const result = useOutbox(config, async (store) => {
    const broker = openSerde(config).sends(openBroker(config));
    try {
      const replay = await openReplay(config, store, broker, onProgress);
      if (stopping.signal.aborted) replay.stop();
      stopping.signal.addEventListener('abort', replay.stop);
      return await replay.run(request);
    } finally {
      await broker.close(closeMs);
    }
  });
  return { result, stop: () => stopping.abort() };
}

interface PgModule {
  readonly Client: new (
    options: object,
  ) => {
    connect(): Promise<unknown>;
    end(): Promise<void>;
    on(event: 'error', listener: () => void): void;
  };
}

interface MysqlModule {
  createConnection(options: object): {
    on(event: 'error', listener: () => void): unknown;
    connect(done: (error: unknown) => void): void;
    destroy(): void;
  };
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string, options: object) => { close(): void };
}

const connectTimeoutMs = 10_000;

/** Opens one connection through the application's driver. Rejects with one-line errors of svc, or as `work` does. */
export async function useConnection(
  url: string,
  dialect: Dialect,
  work: (connection: object) => Promise<void>,
): Promise<void> {
  const { connection, connected, end } = open(url, dialect);
  try {
    await connected().catch((error: { code?: unknown }) => {
      throw new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `the database cannot be reached${typeof error?.code === 'string' ? ` (${error.code})` : ''}: check its URL, and that it runs`,
      );
    });
    await work(connection);
  } finally {
    await end();
  }
}

interface Opened {
  readonly connection: object;
  connected(): Promise<unknown>;
  end(): unknown;
}

function open(url: string, dialect: Dialect): Opened {
  if (dialect === 'postgres') {
    const { Client } = load<PgModule>('pg');
    const client = new Client({ connectionString: url, connectionTimeoutMillis: connectTimeoutMs });
    client.on('error', () => {});
    return { connection: client, connected: () => client.connect(), end: () => client.end().catch(() => {}) };
  }
  if (dialect === 'mysql') {
    const { createConnection } = load<MysqlModule>('mysql2');
    const connection = createConnection({
      ...{ uri: url.replace(/^mariadb:/, 'mysql:'), connectTimeout: connectTimeoutMs },
    });
    connection.on('error', () => {});
    const connected = (): Promise<unknown> =>
      new Promise((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve(null))),
      );
    return { connection, connected, end: () => connection.destroy() };
  }
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as SqliteModule;
  const handle = new DatabaseSync(url.replace(/^sqlite:(?:\/\/(?=\/))?/, ''), {
    timeout: connectTimeoutMs,
  });
  return { connection: handle, connected: async () => {}, end: () => handle.close() };
}

function load<T>(name: string): T {
  try {
    return loadOwnCopy(name) as T;
  } catch (error) {
    throw packageMissing(name, error as NodeJS.ErrnoException);
  }
}

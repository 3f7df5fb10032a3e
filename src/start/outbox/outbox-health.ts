// outbox/: the outbox as the management server and the command line see it, and its relay.

import type { Config } from '../../config/config.ts';
import { backoffMs, type Clock, inTime, systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isoSeconds } from '../../ground/event-fields.ts';
import { loadOwnCopy } from '../../ground/files.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import type { OutboxControls, OutboxHealth } from '../../manage/controls.ts';
import { type Logger, printable } from '../../observe/logger.ts';
import type { OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { reasonOf } from '../../outbox/relay/pacing.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import type { Replay, ReplayOptions, ReplayRequest, ReplayResult } from '../../outbox/replay.ts';
import { createStatistics, type Statistics } from '../../outbox/statistics.ts';
import { isPassing, packageMissing } from '../../outbox/store-error.ts';
import type { Broker } from '../../publish/broker.ts';
import { type Breaker, circuitStates } from '../../publish/main/breaker.ts';
import type { Dialect } from '../../transaction/driver.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { openSerde } from '../serde.ts';
import { brokerSettingsOf } from '../settings.ts';
import type { SenderWatch } from './senders.ts';

interface OutboxHealthOptions {
  /** Fast in a table of any size, so an error means that the database is down. */
  readonly countPending: () => Promise<number>;
  /** May time out for a large table, which is not an error. */
  readonly statistics: Pick<Statistics, 'report' | 'oldestPendingMs'>;
  /** The relay of this process. */
  readonly relay: () => RelayState | undefined;
  /** Another reason for DOWN: one line. */
  readonly problem?: (() => string | undefined) | undefined;
  /** A warning: one line. */
  readonly remark?: (() => string | undefined) | undefined;
  /** A FAILED row blocks later rows of its aggregate. */
  readonly failedBlocks?: boolean;
  readonly clock: Clock;
}

/** How long answers of the table are reused, at least. */
const freshMs = 5_000;
/** The pause after a count, as a multiple of its duration: probes must not scan a large table all the time. */
const restTimes = 10;
/** How long a caller waits before it gets the last known answer. */
const answerMs = 500;

interface Found {
  readonly pending: number | null;
  readonly failed: number | null;
  readonly oldestPendingMs: number | null;
  readonly atMs: number;
  readonly error?: string;
}

/** Health of an outbox. At most one question at a time goes to the database. */
export function createOutboxHealth({
  countPending,
  statistics,
  relay,
  problem,
  remark,
  failedBlocks = false,
  clock,
}: OutboxHealthOptions): {
  ask(): Promise<OutboxHealth>;
  /** Rows wait, and the relay of this process neither claims nor sends. As fast as `ask`. */
  standsStill(): Promise<boolean>;
  /** For metrics, as `failed`. `null` for a standby relay, since the active relays count for all. */
  oldestPendingMs(): number | null;
  /** FAILED rows, as last counted. */
  failed(): number | null;
} {
  let last: Found | undefined;
  let nextAtMs = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | undefined;

  async function count(): Promise<Omit<Found, 'atMs'>> {
    let pending: number | null = null;
    try {
      pending = await countPending();
    } catch (error) {
      return { pending, failed: null, oldestPendingMs: null, error: (error as Error).message };
    }
    try {
      const { failed } = await statistics.report();
      return { pending, failed, oldestPendingMs: await statistics.oldestPendingMs() };
    } catch {
      return { pending, failed: null, oldestPendingMs: null };
    }
  }

  async function askNow(): Promise<void> {
    const startMs = clock.monotonic();
    last = { ...(await count()), atMs: clock.monotonic() };
    nextAtMs = last.atMs + Math.max(freshMs, (last.atMs - startMs) * restTimes);
    asking = undefined;
  }

  function refresh(): Promise<void> | undefined {
    if (asking === undefined && clock.monotonic() >= nextAtMs) asking = askNow();
    return asking;
  }

  /** The age grows between counts. */
  function oldestPendingMs(): number | null {
    if (last === undefined || last.oldestPendingMs === null) return null;
    return Math.round(last.oldestPendingMs + clock.monotonic() - last.atMs);
  }

  function standstill(state: RelayState | undefined): string | undefined {
    if (state?.stalled === undefined || !last?.pending) return undefined;
    const { forMs, reason } = state.stalled;
    const why = reason ?? 'the database has not answered its claim of shards';
    return `rows wait, but the relay of this process has neither claimed shards nor sent rows since ${isoSeconds(clock.now() - forMs)}: ${why}`;
  }

  function blocked(): string | undefined {
    if (!failedBlocks || !last?.failed || !last.pending) return undefined;
    return `${last.failed} rows are FAILED, and later rows of their aggregates wait (svc.outbox.on-failed: block). List them: npx --no svc outbox list --status FAILED`;
  }

  async function look(): Promise<void> {
    const found = refresh();
    if (found !== undefined)
      await inTime(found, { limitMs: answerMs, keepsAlive: false, late: () => undefined });
  }

  return {
    async standsStill() {
      await look();
      return standstill(relay()) !== undefined;
    },
    async ask() {
      await look();
      const state = relay();
      const error = last?.error ?? problem?.() ?? standstill(state);
      const warning = remark?.() ?? state?.refused ?? blocked();
      return {
        status: error === undefined ? 'UP' : 'DOWN',
        circuitBreakerState: state?.circuitBreakerState ?? null,
        consecutiveFailures: state?.consecutiveFailures ?? null,
        timeSinceLastSuccessMs: state?.timeSinceLastSuccessMs ?? null,
        totalPending: last?.pending ?? null,
        totalFailed: last?.failed ?? null,
        oldestPendingMs: oldestPendingMs(),
        ...(state?.standsBy && { standsBy: true }),
        ...(error !== undefined && { error }),
        ...(warning !== undefined && { warning }),
      };
    },
    oldestPendingMs() {
      if (relay()?.standsBy) return null;
      void refresh();
      return oldestPendingMs();
    },
    failed() {
      if (relay()?.standsBy) return null;
      void refresh();
      return last?.failed ?? null;
    },
  };
}

interface StateParts {
  /** `undefined`: no relay runs here. */
  readonly relay: () => RelayState | undefined;
  readonly oldestPendingMs: () => number | null;
  readonly failed: () => number | null;
  readonly unconfirmed: () => number;
  readonly unjoined: () => number;
}

export function outboxState({
  relay,
  oldestPendingMs,
  failed,
  unconfirmed,
  unjoined,
}: StateParts): OutboxState {
  return {
    pending: () => relay()?.pending ?? null,
    oldestPendingMs,
    failed,
    lastRelayedMs() {
      const agoMs = relay()?.timeSinceLastSuccessMs ?? null;
      return agoMs === null ? null : systemClock.now() - agoMs;
    },
    unconfirmed,
    unjoined,
    circuit() {
      const state = relay();
      return state === undefined ? null : circuitStates.indexOf(state.circuitBreakerState);
    },
  };
}

/** The breaker of a relay for operators. `undefined`: no relay runs at the moment. */
export function breakerOf(
  relay: (Pick<Relay, 'resetBreaker'> & { state(): RelayState | undefined }) | undefined,
): Pick<Breaker, 'state' | 'reset'> | undefined {
  const isRunning = relay?.state() !== undefined;
  if (relay === undefined || !isRunning) return undefined;
  return {
    get state() {
      return relay.state()?.circuitBreakerState ?? 'CLOSED';
    },
    reset: relay.resetBreaker,
  };
}

export interface ManagedOutbox extends OutboxControls {
  /** False while this process makes its tables: calls fail until they exist. */
  isReady(): boolean;
  /** Never rejects, and answers within half a second. */
  health(): Promise<OutboxHealth>;
  /** Age of the oldest pending row, as last counted; `null`: unknown. */
  oldestPendingMs(): number | null;
  /** FAILED rows, as last counted; `null`: unknown. */
  failed(): number | null;
  /** Rows wait, and the relay of this process neither claims nor sends. Never rejects, and answers within half a second. */
  standsStill(): Promise<boolean>;
  /** Stops a running replay. */
  close(): void;
}

interface OutboxFitness {
  /** Makes health DOWN: one line. */
  problem(): string | undefined;
  /** A warning: one line. */
  remark(): string | undefined;
  isReady?(): boolean;
}

export function manageOutbox(
  config: Config,
  store: OutboxStore,
  broker: Broker,
  logger: Logger,
  relay: () => RelayState | undefined,
  fitness: OutboxFitness,
): ManagedOutbox {
  const statistics = createStatistics({ store, clock: systemClock, isolate });
  const countPending = (): Promise<number> => isolate(() => store.countPending());
  const health = createOutboxHealth({
    ...{ countPending, statistics, relay, ...fitness, clock: systemClock },
    failedBlocks: config.outbox.onFailed === 'block',
  });
  const replay = loadOnce(() => openReplay(config, store, broker));
  const trial = loadOnce(() => openReplay(config, store, broker));
  return {
    statistics: statistics.report,
    isReady: fitness.isReady ?? (() => true),
    standsStill: health.standsStill,
    async replay({ type: eventType, topic, ...request }, by) {
      const filter = { ...(eventType !== undefined && { eventType }), ...(topic !== undefined && { topic }) };
      const only = [eventType, topic].filter((each) => each !== undefined).map((each) => ` of ${each}`);
      const { dryRun = false } = request;
      const what = `since ${request.since}${printable(only.join(''))}, requested by ${by}`;
      const result = await (dryRun ? trial : replay)()
        .then(({ run }) => run({ ...request, filter }))
        .catch((error: unknown) => {
          logger.warn(
            `outbox: no replay ${what}: ${error instanceof Error ? error.message : 'unknown error'}`,
          );
          throw error;
        });
      const { total, success, after } = result;
      // The requester may have disconnected, so the result is logged.
      const stopped = after === undefined ? '' : `; it ended early, continue with after: ${after}`;
      const sent = dryRun ? 'a dry run, nothing sent' : `${success} sent again`;
      logger.info(`outbox: replay of ${total} events ${what}: ${sent}${stopped}`);
      return result;
    },
    health: health.ask,
    oldestPendingMs: health.oldestPendingMs,
    failed: health.failed,
    close() {
      for (const { started } of [replay, trial]) void started()?.then((running) => running.stop());
    },
  };
}

async function openReplay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  onProgress?: ReplayOptions['onProgress'],
): Promise<Replay> {
  const { createReplay } = await import('../../outbox/replay.ts');
  const sendTimeoutMs = outbox.sendTimeoutSeconds * 1_000;
  return createReplay({
    store,
    broker,
    sendTimeoutMs,
    clock: systemClock,
    isolate,
    ...(onProgress && { onProgress }),
  });
}

/** A command counts large tables and may wait for locks, so it has more time than a relay, which blocks others. */
const timeoutMs = 30_000;
const closeMs = 5_000;
const holdMs = 60_000;

interface UseOptions {
  /** `prepare` makes and updates the tables. Default: it only checks them. */
  readonly makesTables?: boolean;
  /** Tables are made with a partition for each day. */
  readonly partitioned?: boolean;
}

/** Opens the outbox of a configuration for one command. Rejects with one-line errors, or as `work` does. */
export async function useOutbox<T>(
  { outbox: { datasource, table } }: Config,
  logger: Logger,
  work: (store: OutboxStore) => Promise<T>,
  { makesTables = false, partitioned = false }: UseOptions = {},
): Promise<T> {
  // Keeps the process alive, because connections are unref'd.
  const hold = setInterval(() => {}, holdMs);
  const initializeSchema = makesTables ? 'always' : 'never';
  const store = openOutboxStore({
    ...{ url: datasource.url ?? '', table, initializeSchema, logger, timeoutMs, partitioned },
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
  logger: Logger,
  request: ReplayRequest,
  onProgress: (sentCount: number, failedCount: number) => void,
): RunningReplay {
  const stopping = new AbortController();
  const result = useOutbox(config, logger, async (store) => {
    const broker = openSerde(config, logger).sends(
      openBroker(config.broker.client, brokerSettingsOf(config, logger)),
    );
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
  createConnection(options: object): { connect(done: (error: unknown) => void): void; destroy(): void };
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string, options: object) => { close(): void };
}

const timeoutMsOfUseConnection = 10_000;

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
    const client = new Client({ connectionString: url, connectionTimeoutMillis: timeoutMsOfUseConnection });
    client.on('error', () => {});
    return { connection: client, connected: () => client.connect(), end: () => client.end().catch(() => {}) };
  }
  if (dialect === 'mysql') {
    const { createConnection } = load<MysqlModule>('mysql2');
    const connection = createConnection({
      ...{ uri: url.replace(/^mariadb:/, 'mysql:'), connectTimeout: timeoutMsOfUseConnection },
    });
    const connected = (): Promise<unknown> =>
      new Promise((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve(null))),
      );
    return { connection, connected, end: () => connection.destroy() };
  }
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as SqliteModule;
  const handle = new DatabaseSync(url.replace(/^sqlite:(?:\/\/(?=\/))?/, ''), {
    timeout: timeoutMsOfUseConnection,
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

export interface ForeignDriver {
  readonly specifier: string;
  readonly dialect: Dialect;
}

/** Drivers whose transactions svc cannot follow. */
export const foreignDrivers: readonly ForeignDriver[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
  { specifier: 'sqlite3', dialect: 'sqlite' },
  { specifier: 'libsql', dialect: 'sqlite' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}. Call functions with outbox events inside outbox.withTransaction(transaction, fn), or open the transaction with outbox.runInTransaction`;
}

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

interface PrepareOptions {
  readonly store: Pick<OutboxStore, 'prepare'>;
  /** Checks that the tables fit the settings, once they exist. */
  readonly senders: Pick<SenderWatch, 'look' | 'refusal'>;
  /** This process makes missing tables. */
  readonly makesTables: boolean;
  /** The longest wait of an event for the tables. */
  readonly maxWaitMs: number;
  readonly logger: Logger;
}

interface StorePreparation {
  /** Resolves after the first attempt, whether it succeeded or not. */
  readonly tried: Promise<void>;
  /**
   * Call before a row is written. `undefined`: write now. Otherwise wait for the promise, at most `maxWaitMs`: the tables are being checked
   * or made. Throws or rejects if the event would be lost.
   */
  ready(): Promise<void> | undefined;
  /** False while this process still makes the tables. */
  isReady(): boolean;
  /** Stops the retries. */
  stop(): void;
}

/** Prepares the tables. Retries while the database is away or read-only. Other errors are logged once. */
export function prepareStore(options: PrepareOptions): StorePreparation {
  const { store, senders, makesTables, maxWaitMs, logger } = options;
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
      failedAtMs = systemClock.monotonic();
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
    tried,
    ready() {
      refuse();
      if (isPrepared || isGivenUp) return undefined;
      if (failures > 0 && !makesTables) return undefined;
      // The application has reached its database, so the rest of a long pause is skipped.
      const isPause = inFlight === undefined && systemClock.monotonic() - failedAtMs < firstPauseMs;
      if (isPause) return undefined;
      const looked = (inFlight ?? begin()).then(refuse);
      return inTime(looked, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
    },
    isReady: () => isPrepared || !makesTables,
    stop() {
      isGivenUp = true;
      clearTimeout(timer);
    },
  };
}

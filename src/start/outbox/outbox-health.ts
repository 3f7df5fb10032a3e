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
  /** Quick in a table of any size: whether it answers is whether the database does. */
  readonly countPending: () => Promise<number>;
  /** May take too long for a large table, which is no fault of the database. */
  readonly statistics: Pick<Statistics, 'report' | 'oldestPendingMs'>;
  /** Of the relay in this process. */
  readonly relay: () => RelayState | undefined;
  /** Something else that makes it DOWN: one line. */
  readonly problem?: (() => string | undefined) | undefined;
  /** Something that does not: one line. */
  readonly remark?: (() => string | undefined) | undefined;
  /** A FAILED row keeps back the later ones of its aggregate. */
  readonly failedBlocks?: boolean;
  readonly clock: Clock;
}

/** What the table said, for so long at least. */
const freshMs = 5_000;
/** A count that took long is not repeated for so many times its length: a large table is not scanned all the time for a probe. */
const restTimes = 10;
/** Who asks waits no longer, and hears what was known before. */
const answerMs = 500;

interface Found {
  readonly pending: number | null;
  readonly failed: number | null;
  readonly oldestPendingMs: number | null;
  readonly atMs: number;
  readonly error?: string;
}

/** Health of an outbox that costs its database one question at a time, however often it is asked for. */
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
  /** Rows wait, and the relay of this process does nothing about it. As quick as `ask`. */
  standsStill(): Promise<boolean>;
  /** For metrics, as `failed`: `null` of a relay that stands by, as those at work count for all. */
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

  /** It grows older while nobody counts. */
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

/** What the metrics read of an outbox. */
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

/** The breaker of a relay, as an operator sees it; `undefined`: no relay runs at the moment. */
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

/** What the management server shows of an outbox, and does with it. */
export interface ManagedOutbox extends OutboxControls {
  /** False while this process makes its tables: until they are there calls fail. */
  isReady(): boolean;
  /** Never rejects, and answers within half a second. */
  health(): Promise<OutboxHealth>;
  /** Age of the oldest event that waits, as last asked for; `null`: not known. */
  oldestPendingMs(): number | null;
  /** FAILED rows, as last counted; `null`: not known. */
  failed(): number | null;
  /** Rows wait, and the relay of this process does nothing about it. Never rejects, and answers within half a second. */
  standsStill(): Promise<boolean>;
  /** Ends a replay that runs. */
  close(): void;
}

/** What else than its database makes an outbox unfit. */
interface OutboxFitness {
  /** Makes its health DOWN: one line. */
  problem(): string | undefined;
  /** Shown beside it: one line. */
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
      // Whoever asked may not be there any more.
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

/** A command may take longer than a relay, which others wait for: it counts large tables, and locks can hold it up. */
const timeoutMs = 30_000;
const closeMs = 5_000;
const holdMs = 60_000;

interface UseOptions {
  /** Makes and updates the tables, where `prepare` is called. Default: it only looks at them. */
  readonly makesTables?: boolean;
  /** With a partition for each day, where it makes them. */
  readonly partitioned?: boolean;
}

/** Opens the outbox of a configuration for one command. Rejects with one-line errors, and as `work` does. */
export async function useOutbox<T>(
  { outbox: { datasource, table } }: Config,
  logger: Logger,
  work: (store: OutboxStore) => Promise<T>,
  { makesTables = false, partitioned = false }: UseOptions = {},
): Promise<T> {
  // Nothing else does: a connection must not keep an application alive.
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
  /** Ends it after the batch under way. */
  stop(): void;
}

/** Sends rows again, from the command line. */
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

/** One connection of the application's driver, for one command. Rejects with one-line errors of svc, and as `work` does. */
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

/** Drivers that applications use, and that svc cannot follow. */
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
  /** Looks whether the tables fit the settings, once they are there. */
  readonly senders: Pick<SenderWatch, 'look' | 'refusal'>;
  /** This process makes the tables where there are none. */
  readonly makesTables: boolean;
  /** The longest that an event waits for them. */
  readonly maxWaitMs: number;
  readonly logger: Logger;
}

/** The tables of an outbox, looked at or made. */
interface StorePreparation {
  /** Resolves when that was tried once, whatever came of it. */
  readonly tried: Promise<void>;
  /**
   * Before a row is written. `undefined`: it may be. Else it is to wait, `maxWaitMs` at most: for the first look at the tables, or until
   * they are made. Throws, or rejects, where the event would be lost.
   */
  ready(): Promise<void> | undefined;
  /** False while tables that this process makes are not there. */
  isReady(): boolean;
  /** It is not tried again. */
  stop(): void;
}

/**
 * A database that is away, or takes no writes yet, is asked again until it is otherwise: its tables may have to be made. What else is
 * wrong is said once.
 */
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
      // An application that has come so far has a database that answers: the rest of a long pause is not waited for.
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

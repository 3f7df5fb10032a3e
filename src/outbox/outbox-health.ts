import type { Config } from '../config/config.ts';
import { clock, inTime } from '../ground/clock.ts';
import type { SvcError } from '../ground/errors.ts';
import { isoSeconds } from '../ground/event-fields.ts';
import { loadOnce } from '../ground/lifecycle.ts';
import { circuitStates } from '../ground/management.ts';
import { logger, printable } from '../observe/logger.ts';
import type { OutboxState } from '../observe/metrics.ts';
import { isolate } from '../observe/otel-api.ts';
import type { Broker } from '../publish/broker.ts';
import type { ClusterState } from '../publish/main/cluster-state.ts';
import type { Dialect } from '../transaction/driver.ts';
import { writingViews } from '../transaction/statements.ts';
import {
  besideTable,
  eraseSuffix,
  erasesRows,
  partsOfTable,
  quoteName,
  quoteTable,
  routeColumn,
} from './insert-row.ts';
import type { OutboxStore, Senders } from './outbox-store.ts';
import { type Relay, type RelayState, reasonOf } from './relay/relay.ts';
import type { ReplayRequest } from './replay.ts';
import { createStatistics, type Statistics } from './statistics.ts';
import { unfitTable } from './store-error.ts';

type SenderSettings = Parameters<typeof erasesRows>[0] & {
  readonly dialect: Dialect;
  readonly table: string;
};

/** Without a live relay, rows that wait this long have no sender. A relay restarts faster. */
const waitingMs = 60_000;

/**
 * Whether a table fits these settings. `refusal`: why events must not be stored, as this table would lose them. Else `remark`: a
 * warning for the operator; no event is lost. `isRelay`: this process runs a relay.
 */
export function judge(settings: SenderSettings, senders: Senders, isRelay: boolean) {
  const refusal = refusalOf(settings, senders);
  return { refusal, remark: refusal === undefined ? remarkOf(settings, senders, isRelay) : undefined };
}

function refusalOf(settings: SenderSettings, { erases, isRouted, log }: Senders): SvcError | undefined {
  const { dialect, table } = settings;
  if (!isForDebezium(settings)) return erases ? unfitTable.contradiction(erasedText(table)) : undefined;
  if (dialect === 'mysql' && !isRouted)
    return unfitTable.contradiction(
      `the table ${table} has no column ${routeColumn}, so Debezium sends none of its rows. Run the output of "npx --no svc outbox debezium --sql", or set svc.outbox.publisher-enabled: true`,
    );
  if (log !== 'none' || (dialect === 'postgres' && !erases)) return undefined;
  const missing =
    dialect === 'postgres'
      ? 'its database has no logical replication slot, or one that has lost its log'
      : 'its server keeps no binary log';
  return unfitTable.contradiction(
    `each row of ${table} is deleted in the transaction that wrote it (svc.outbox.publisher-enabled: false, retention-days: 0), and ${missing}, so no connector can read it. Create the connector first, or set svc.outbox.publisher-enabled: true and run the output of "npx --no svc outbox debezium --sql"`,
  );
}

function remarkOf(settings: SenderSettings, senders: Senders, isRelay: boolean): string | undefined {
  const { dialect, table } = settings;
  const { erases, isRouted, log, relays, oldestMs } = senders;
  if (isForDebezium(settings)) {
    if (relays > 0)
      return `this process leaves the rows of ${table} to Debezium and deletes them at once, but relays send rows too. Stop the relays, or set svc.outbox.publisher-enabled: true here as well`;
    if (dialect === 'postgres' && !erases)
      return `svc.outbox.retention-days is 0 for Debezium, and the table ${table} keeps its rows: run the output of "npx --no svc outbox debezium --sql"`;
  }
  const isWaiting = oldestMs !== null && oldestMs > waitingMs;
  if (isRelay || relays > 0 || (!isWaiting && !erases)) return undefined;
  if (!isRouted)
    return `rows of ${table} wait for ${spanOf(oldestMs ?? 0)}, but no relay of it runs. Start "npx --no svc relay", or a process with svc.outbox.publisher-enabled: true and this table`;
  // Whether a connector reads a binary log is unknown here.
  if (dialect !== 'postgres' || log === 'read') return undefined;
  return `no relay of ${table} runs, and currently no connector reads the log of its database: check Kafka Connect (GET /connectors/<name>/status)`;
}

/** No connector reads SQLite: its rows stay with any setting. */
const isForDebezium = (settings: SenderSettings): boolean =>
  erasesRows(settings) && settings.dialect !== 'sqlite';

function spanOf(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function erasedText(table: string): string {
  const trigger = quoteName('postgres', besideTable(partsOfTable(table)?.name ?? table, eraseSuffix));
  return `a trigger of the table ${table} deletes each row in the transaction that wrote it, so no relay would find an event. That is for Debezium only, with svc.outbox.publisher-enabled: false and retention-days: 0. Run DROP TRIGGER ${trigger} ON ${quoteTable('postgres', table)}, or set both options if Debezium sends`;
}

/** Others may change the table, or start and stop sending, at any time. While events are refused, the next look may end that. */
const lookMs = 60_000;
const refusedLookMs = 5_000;

/** Checks that the settings of this process fit its table and that the rows have a sender. Also reads the database's traits. */
export function watchSenders({
  store,
  settings,
  isRelay,
}: {
  readonly store: Pick<OutboxStore, 'senders' | 'traits'>;
  readonly settings: SenderSettings;
  /** This process has a relay. */
  readonly isRelay: boolean;
}) {
  let refusal: SvcError | undefined;
  let remark: string | undefined;
  let maxPacketBytes: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  async function ask(): Promise<void> {
    const senders = await store.senders();
    const [wasRefused, last] = [refusal, remark];
    ({ refusal, remark } = judge(settings, senders, isRelay));
    if (isStopped) return;
    if (refusal !== undefined && refusal.message !== wasRefused?.message)
      logger.error(`outbox: ${refusal.message}`, { code: refusal.code });
    if (refusal === undefined && wasRefused !== undefined)
      logger.info(`outbox: the table ${settings.table} fits the settings again: events are stored`);
    // The text contains how long rows wait, so it is logged once.
    if (remark !== undefined && last === undefined) logger.warn(`outbox: ${remark}`);
  }

  async function learn(): Promise<void> {
    const traits = await store.traits();
    maxPacketBytes = traits.maxPacketBytes;
    writingViews.tell(settings.dialect, traits.writingViews);
  }

  async function look(): Promise<void> {
    await isolate(learn).catch((error: unknown) =>
      logger.debug(`outbox: svc cannot find out which views of the database write: ${reasonOf(error)}`),
    );
    await isolate(ask).catch((error: unknown) =>
      logger.debug(`outbox: svc cannot find out which process sends the rows: ${reasonOf(error)}`),
    );
    if (isStopped) return;
    timer = setTimeout(look, refusal === undefined ? lookMs : refusedLookMs).unref();
  }

  return {
    /** Looks once, and then schedules the next look. Never rejects: after an error the last answers stay. */
    look,
    /** Why events would be lost. */
    refusal: () => refusal,
    /** The largest packet that the database accepts. `undefined`: no limit, or unknown. */
    maxPacketBytes: () => maxPacketBytes,
    /** A warning in one line; no event is lost. */
    remark: () => remark,
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

const maxTold = 100;

/** Counts events that are stored outside a transaction, and warns once per target. */
export function tellUnjoined() {
  const told = new Set<string>();
  let count = 0;
  return {
    /** `target`: as reports name it, such as `src/orders.ts#placeOrder`. `undefined`: the application called `outbox.save()`. */
    tell({ eventType }: { readonly eventType: string }, target: string | undefined): void {
      count++;
      const whose = target ?? `outbox.save() of ${eventType}`;
      if (told.has(whose) || told.size >= maxTold) return;
      told.add(whose);
      logger.warn(
        `outbox: an event of ${printable(whose)} was made outside any transaction. svc stores it right after the call, not atomically: a process that ends in between loses the event. Call the function within a transaction, or let such calls fail with svc.outbox.on-no-transaction: error (docs/outbox.md). svc logs this once for each target`,
        { eventType, ...(target !== undefined && { target }) },
      );
    },
    count: () => count,
    /** One line for health and the doctor, once there was such an event. */
    remark(): string | undefined {
      if (count === 0) return undefined;
      const first = [...told].slice(0, 5).map(printable).join(', ');
      const more = told.size > 5 ? ` and ${told.size - 5} more` : '';
      return `${count} event${count === 1 ? ' was' : 's were'} made outside any transaction, and stored separately, not atomically with the writes of the calls: ${first}${more}; see svc_outbox_unjoined_total, and docs/outbox.md for the remedy`;
    },
  };
}

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
function createOutboxHealth(options: OutboxHealthOptions) {
  const { countPending, statistics, relay, problem, remark, failedBlocks = false } = options;
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
    /** Rows wait, and the relay of this process neither claims nor sends. As fast as `ask`. */
    async standsStill(): Promise<boolean> {
      await look();
      return standstill(relay()) !== undefined;
    },
    /** As the health endpoint shows it. */
    async ask() {
      await look();
      const state = relay();
      const error = last?.error ?? problem?.() ?? standstill(state);
      const warning = remark?.() ?? state?.refused ?? blocked();
      return {
        status: error === undefined ? ('UP' as const) : ('DOWN' as const),
        circuitBreakerState: state?.circuitBreakerState ?? null,
        consecutiveFailures: state?.consecutiveFailures ?? null,
        timeSinceLastSuccessMs: state?.timeSinceLastSuccessMs ?? null,
        totalPending: last?.pending ?? null,
        totalFailed: last?.failed ?? null,
        oldestPendingMs: oldestPendingMs(),
        ...(state?.standsBy && { standsBy: true as const }),
        ...(error !== undefined && { error }),
        ...(warning !== undefined && { warning }),
      };
    },
    /** For metrics, as `failed`. `null` for a standby relay, since the active relays count for all. */
    oldestPendingMs(): number | null {
      if (relay()?.standsBy) return null;
      void refresh();
      return oldestPendingMs();
    },
    /** FAILED rows, as last counted. */
    failed(): number | null {
      if (relay()?.standsBy) return null;
      void refresh();
      return last?.failed ?? null;
    },
  };
}

/** The breaker of a relay for operators. `undefined`: no relay runs at the moment. */
export function breakerOf(
  relay: (Pick<Relay, 'resetBreaker'> & { state(): RelayState | undefined }) | undefined,
): Pick<ClusterState, 'state' | 'reset'> | undefined {
  const isRunning = relay?.state() !== undefined;
  if (relay === undefined || !isRunning) return undefined;
  return {
    get state() {
      return relay.state()?.circuitBreakerState ?? 'CLOSED';
    },
    reset: relay.resetBreaker,
  };
}

type ReplayAsk = Omit<ReplayRequest, 'filter'> & { readonly type?: string; readonly topic?: string };

interface OutboxFitness {
  /** Makes health DOWN: one line. */
  problem(): string | undefined;
  /** A warning: one line. */
  remark(): string | undefined;
  isReady?(): boolean;
}

/** The outbox as the management server and the command line see it. */
export function manageOutbox(
  config: Config,
  store: OutboxStore,
  broker: Broker,
  relay: () => RelayState | undefined,
  fitness: OutboxFitness,
) {
  const statistics = createStatistics(store);
  const countPending = (): Promise<number> => isolate(() => store.countPending());
  const health = createOutboxHealth({
    ...{ countPending, statistics, relay, ...fitness },
    failedBlocks: config.outbox.onFailed === 'block',
  });
  const replay = loadOnce(() => openReplay(config, store, broker));
  const trial = loadOnce(() => openReplay(config, store, broker));
  return {
    statistics: statistics.report,
    /** False while this process makes its tables: calls fail until they exist. */
    isReady: fitness.isReady ?? (() => true),
    standsStill: health.standsStill,
    async replay({ type: eventType, topic, ...request }: ReplayAsk, by: string) {
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
    /** Never rejects, and answers within half a second. */
    health: health.ask,
    /** For metrics. Counts of this process come with it. */
    state: (own: Pick<OutboxState, 'unconfirmed' | 'unjoined'>): OutboxState => ({
      ...own,
      pending: () => relay()?.pending ?? null,
      oldestPendingMs: health.oldestPendingMs,
      failed: health.failed,
      lastRelayedMs() {
        const agoMs = relay()?.timeSinceLastSuccessMs ?? null;
        return agoMs === null ? null : clock.now() - agoMs;
      },
      circuit() {
        const state = relay();
        return state === undefined ? null : circuitStates.indexOf(state.circuitBreakerState);
      },
    }),
    /** Stops a running replay. */
    close() {
      for (const { started } of [replay, trial]) void started()?.then((running) => running.stop());
    },
  };
}

export type ManagedOutbox = ReturnType<typeof manageOutbox>;

export async function openReplay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  onProgress?: (sentCount: number, failedCount: number) => void,
) {
  const { createReplay } = await import('./replay.ts');
  const sendTimeoutMs = outbox.sendTimeoutSeconds * 1_000;
  return createReplay({
    store,
    broker,
    sendTimeoutMs,
    ...(onProgress && { onProgress }),
  });
}

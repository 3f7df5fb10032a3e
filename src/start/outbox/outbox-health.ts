// outbox/: the outbox as the management server and the command line see it, and its relay.

import type { Config } from '../../config/config.ts';
import { clock, inTime } from '../../ground/clock.ts';
import { isoSeconds } from '../../ground/event-fields.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { circuitStates } from '../../ground/management.ts';
import type { OutboxControls, OutboxHealth } from '../../manage/controls.ts';
import { logger, printable } from '../../observe/logger.ts';
import type { OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import { createStatistics, type Statistics } from '../../outbox/statistics.ts';
import type { Broker } from '../../publish/broker.ts';
import type { ClusterState } from '../../publish/main/cluster-state.ts';
import type { Dialect } from '../../transaction/driver.ts';

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
export function createOutboxHealth({
  countPending,
  statistics,
  relay,
  problem,
  remark,
  failedBlocks = false,
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
      return agoMs === null ? null : clock.now() - agoMs;
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

interface OutboxFitness {
  /** Makes health DOWN: one line. */
  problem(): string | undefined;
  /** A warning: one line. */
  remark(): string | undefined;
  isReady?(): boolean;
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

export function manageOutbox(
  config: Config,
  store: OutboxStore,
  broker: Broker,
  relay: () => RelayState | undefined,
  fitness: OutboxFitness,
): ManagedOutbox {
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

export async function openReplay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  onProgress?: (sentCount: number, failedCount: number) => void,
) {
  const { createReplay } = await import('../../outbox/replay.ts');
  const sendTimeoutMs = outbox.sendTimeoutSeconds * 1_000;
  return createReplay({
    store,
    broker,
    sendTimeoutMs,
    ...(onProgress && { onProgress }),
  });
}

/** Drivers whose transactions svc cannot follow. */
export const foreignDrivers: readonly { readonly specifier: string; readonly dialect: Dialect }[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
  { specifier: 'sqlite3', dialect: 'sqlite' },
  { specifier: 'libsql', dialect: 'sqlite' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}. Call functions with outbox events inside outbox.withTransaction(transaction, fn), or open the transaction with outbox.runInTransaction`;
}

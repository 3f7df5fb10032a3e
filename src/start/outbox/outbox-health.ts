// outbox/: the outbox as the management server and the command line see it, and its relay.

import type { Config } from '../../config/config.ts';
import { type Clock, inTime, systemClock } from '../../ground/clock.ts';
import { isoSeconds } from '../../ground/event-fields.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import type { OutboxControls, OutboxHealth } from '../../manage/controls.ts';
import { type Logger, printable } from '../../observe/logger.ts';
import type { OutboxState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';
import type { Replay, ReplayOptions } from '../../outbox/replay.ts';
import { createStatistics, type Statistics } from '../../outbox/statistics.ts';
import type { Broker } from '../../publish/broker.ts';
import { type Breaker, circuitStates } from '../../publish/main/breaker.ts';

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
    return `rows wait, and the relay of this process has neither claimed shards nor sent any since ${isoSeconds(clock.now() - forMs)}: ${why}`;
  }

  function blocked(): string | undefined {
    if (!failedBlocks || !last?.failed || !last.pending) return undefined;
    return `${last.failed} rows are FAILED, and later ones of their aggregates wait behind them (svc.outbox.on-failed: block): look at them with "npx --no svc outbox list --status FAILED"`;
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
      const what = `since ${request.since}${printable(only.join(''))}, asked for by ${by}`;
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
      const stopped = after === undefined ? '' : `; it ended early, and goes on with after: ${after}`;
      const sent = dryRun ? 'a dry run, none sent' : `${success} sent again`;
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

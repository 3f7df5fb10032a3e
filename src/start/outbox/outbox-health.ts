import { type Clock, inTime } from '../../ground/clock.ts';
import { isoSeconds } from '../../ground/instant.ts';
import type { OutboxHealth } from '../../manage/controls.ts';
import type { RelayState } from '../../outbox/relay/relay.ts';
import type { Statistics } from '../../outbox/statistics.ts';

export interface OutboxHealthOptions {
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

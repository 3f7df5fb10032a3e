import type { Clock } from '../ground/clock.ts';
import type { OutboxStore } from './outbox-store.ts';

/** How long what was counted is told again. */
export const countMaxAgeMs = 5_000;

/** The outbox statistics object of the specification. */
export interface StatisticsReport {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  /** 0 where no row tells. */
  readonly avgProcessingTimeMs: number;
}

/** What is in the table, counted at most every 5 seconds, however many ask. */
export interface Statistics {
  /** Rejects as the store does. */
  report(): Promise<StatisticsReport>;
  /** Age of the oldest PENDING row; `null`: there is none. */
  oldestPendingMs(): Promise<number | null>;
  /** At once: PENDING rows, as last counted; `undefined`: they never were. Counts anew where that was long ago. */
  pending(): number | undefined;
}

export interface StatisticsOptions {
  readonly store: Pick<OutboxStore, 'statistics' | 'countPending'>;
  readonly clock: Clock;
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
}

export function createStatistics({ store, clock, isolate }: StatisticsOptions): Statistics {
  const statistics = cached(() => isolate(() => store.statistics()), clock);
  const pending = cached(() => isolate(() => store.countPending()), clock);
  return {
    async report() {
      const { total, pending: waiting, published, failed, avgProcessingTimeMs } = await statistics.ask();
      return { total, pending: waiting, published, failed, avgProcessingTimeMs: avgProcessingTimeMs ?? 0 };
    },
    oldestPendingMs: async () => (await statistics.ask()).oldestPendingMs,
    pending() {
      pending.ask().catch(() => undefined);
      return pending.last();
    },
  };
}

/** One question at a time, and its answer for a while. What failed is asked again. */
function cached<T>(question: () => Promise<T>, clock: Clock): { ask(): Promise<T>; last(): T | undefined } {
  let answer: { readonly value: T; readonly atMs: number } | undefined;
  let asked: Promise<T> | undefined;

  async function askAnew(): Promise<T> {
    try {
      const value = await question();
      answer = { value, atMs: clock.monotonic() };
      return value;
    } finally {
      asked = undefined;
    }
  }

  return {
    async ask() {
      if (answer !== undefined && clock.monotonic() - answer.atMs < countMaxAgeMs) return answer.value;
      asked ??= askAnew();
      return asked;
    },
    last: () => answer?.value,
  };
}

import { clock } from '../ground/clock.ts';
import { isolate } from '../observe/otel-api.ts';
import type { OutboxStore } from './outbox-store.ts';

/** How long a count is cached. */
const countMaxAgeMs = 5_000;

/** The outbox statistics object of the specification. */
export interface StatisticsReport {
  readonly total: number;
  readonly pending: number;
  readonly published: number;
  readonly failed: number;
  /** 0: unknown. */
  readonly avgProcessingTimeMs: number;
}

export type Statistics = ReturnType<typeof createStatistics>;

/** Counts of the table, at most every 5 seconds for all callers together. */
export function createStatistics(store: Pick<OutboxStore, 'statistics' | 'countPending'>) {
  const statistics = cached(() => isolate(() => store.statistics()));
  const pending = cached(() => isolate(() => store.countPending()));
  return {
    /** Rejects as the store does. */
    async report(): Promise<StatisticsReport> {
      const { total, pending: waiting, published, failed, avgProcessingTimeMs } = await statistics.ask();
      return { total, pending: waiting, published, failed, avgProcessingTimeMs: avgProcessingTimeMs ?? 0 };
    },
    /** Age of the oldest PENDING row; `null`: none. */
    oldestPendingMs: async (): Promise<number | null> => (await statistics.ask()).oldestPendingMs,
    /** Synchronous: PENDING rows at the last count; `undefined`: never counted. Starts a new count if that is old. */
    pending(): number | undefined {
      pending.ask().catch(() => undefined);
      return pending.last();
    },
  };
}

/** Shares one query between callers, and caches its answer. Errors are not cached. */
function cached<T>(question: () => Promise<T>): { ask(): Promise<T>; last(): T | undefined } {
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

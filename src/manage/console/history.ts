import { durationBoundsSeconds } from '../../observe/durations.ts';
import type { MetricSources } from '../../observe/metrics.ts';
import type { Sample, Totals } from '../monitoring-state.ts';
import type { History } from './document.ts';

/** What is looked at every ten seconds, beside the counts of the thresholds. */
export interface Levels {
  /** Unix time in milliseconds. */
  readonly wallMs: number;
  readonly queued: number;
  readonly backup: number;
  readonly outbox: number | null;
  readonly circuit: number;
  /** Of the durations of all event types, as the histogram has them. */
  readonly buckets: readonly number[];
}

export function levelsOf(sources: MetricSources, wallMs: number): Levels {
  const buckets: number[] = new Array(durationBoundsSeconds.length + 1).fill(0);
  for (const { histogram } of sources.durations.rows())
    for (const [index, count] of histogram.buckets.entries()) (buckets[index] as number) += count;
  return {
    ...{ wallMs, buckets, circuit: sources.circuit() },
    queued: sources.buffer().events,
    backup: sources.backup().events,
    outbox: sources.outbox?.pending() ?? null,
  };
}

/** Steps that ended after `afterMs`. */
export function historyOf(samples: readonly Sample<Totals & Levels>[], afterMs: number): History {
  const steps = samples
    .slice(1)
    .map(({ atMs, totals: now }, index) => {
      const before = samples[index] as Sample<Totals & Levels>;
      return { now, seconds: (atMs - before.atMs) / 1_000, before: before.totals };
    })
    .filter(({ now }) => now.wallMs > afterMs);
  const column = <T>(value: (step: (typeof steps)[number]) => T): T[] => steps.map(value);
  return {
    atMs: column(({ now }) => now.wallMs),
    seconds: column(({ seconds }) => Math.round(seconds * 10) / 10),
    published: column(({ now, before }) => now.published - before.published),
    failed: column(({ now, before }) => now.failed - before.failed),
    meanMs: column(({ now, before }) => {
      const sends = now.sends - before.sends;
      return sends === 0 ? null : tenth(((now.sendSeconds - before.sendSeconds) * 1_000) / sends);
    }),
    p95Ms: column(({ now, before }) =>
      percentileMs(
        now.buckets.map((count, index) => count - (before.buckets[index] as number)),
        0.95,
      ),
    ),
    queued: column(({ now }) => now.queued),
    backup: column(({ now }) => now.backup),
    outbox: column(({ now }) => now.outbox),
    circuit: column(({ now }) => now.circuit),
  };
}

/** As Prometheus does it: evenly within a bucket; what is above the last bound counts as that. */
function percentileMs(buckets: readonly number[], share: number): number | null {
  const all = buckets.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let left = all * share;
  for (const [index, upper] of durationBoundsSeconds.entries()) {
    const count = buckets[index] as number;
    const lower = durationBoundsSeconds[index - 1] ?? 0;
    if (count > 0 && left <= count) return tenth((lower + ((upper - lower) * left) / count) * 1_000);
    left -= count;
  }
  return (durationBoundsSeconds.at(-1) as number) * 1_000;
}

const tenth = (value: number): number => Math.round(value * 10) / 10;

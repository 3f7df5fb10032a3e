import type { MetricSources } from '../../observe/metrics.ts';
import { eventsByType } from '../metrics-report.ts';
import type { Trend } from './document.ts';

/** Of so many types, the busiest since the start. */
export const mostTrends = 50;
/** Ten minutes. */
const mostSteps = 60;

export interface Trends {
  /** A step has ended. */
  step(): void;
  all(): readonly Trend[];
}

/** How many events of the busiest types there were within each of the last steps. A type that comes among them begins without a past. */
export function createTrends(read: () => ReadonlyMap<string, number>): Trends {
  interface Seen {
    readonly total: number;
    readonly events: readonly number[];
  }
  const busiest = (): [string, number][] =>
    [...read()].sort(([, one], [, other]) => other - one).slice(0, mostTrends);
  let seen = new Map<string, Seen>(busiest().map(([type, total]) => [type, { total, events: [] }]));
  return {
    step() {
      seen = new Map(
        busiest().map(([type, total]) => {
          const before = seen.get(type);
          const events =
            before === undefined ? [] : [...before.events, total - before.total].slice(-mostSteps);
          return [type, { total, events }];
        }),
      );
    },
    all: () => [...seen].map(([eventType, { events }]) => ({ eventType, events })),
  };
}

/** Events that got to their topic, and those that did not. */
export function totalsByType(sources: MetricSources): Map<string, number> {
  const totals = eventsByType('svc.events.published', sources);
  for (const [type, failed] of eventsByType('svc.events.failed', sources))
    totals.set(type, (totals.get(type) ?? 0) + failed);
  return totals;
}

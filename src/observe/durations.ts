import { createEventRows } from './event-rows.ts';

export interface EventTypeDurations {
  readonly attributes: { readonly eventType: string };
  readonly histogram: Histogram;
}

/** Where else a duration goes: the histogram of the application's meter provider. */
export type DurationListener = (seconds: number, attributes: { readonly eventType: string }) => void;

/** How long events take from the hand-over to the publisher until their outcome, per event type. */
export interface PublishDurations {
  /** Call it once per event that reached the publisher. */
  record(eventType: string, seconds: number): void;
  /** At most one listener; `undefined` removes it. It must not throw. */
  listen(listener: DurationListener | undefined): void;
  rows(): Iterable<EventTypeDurations>;
}

export function createPublishDurations(): PublishDurations {
  const rows = createEventRows<EventTypeDurations>((eventType) => ({
    attributes: Object.freeze({ eventType }),
    histogram: createHistogram(),
  }));
  let listener: DurationListener | undefined;
  return {
    record: (eventType, seconds) => {
      const row = rows.of(eventType);
      row.histogram.record(seconds);
      listener?.(seconds, row.attributes);
    },
    listen: (next) => {
      listener = next;
    },
    rows: () => rows.all(),
  };
}

/** Upper bounds in seconds, as the OpenTelemetry messaging conventions advise for durations; the last bucket has none. */
export const durationBoundsSeconds: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];

/** Counts of values in fixed buckets. A value equal to a bound belongs to the bucket that the bound closes. */
export interface Histogram {
  /** Ignores what is not a number; what is below zero (a clock that went back) counts as zero. */
  record(value: number): void;
  readonly count: number;
  readonly sum: number;
  /** The largest of all; 0 where there is none. */
  readonly max: number;
  /** One count per bound and one for what is above the last, not cumulative. */
  readonly buckets: readonly number[];
}

export function createHistogram(bounds: readonly number[] = durationBoundsSeconds): Histogram {
  const buckets: number[] = new Array(bounds.length + 1).fill(0);
  const histogram = {
    count: 0,
    sum: 0,
    max: 0,
    buckets,
    record(value: number): void {
      if (Number.isNaN(value)) return;
      const recorded = value > 0 ? value : 0;
      let index = 0;
      while (index < bounds.length && recorded > (bounds[index] as number)) index++;
      (buckets[index] as number)++;
      histogram.count++;
      histogram.sum += recorded;
      if (recorded > histogram.max) histogram.max = recorded;
    },
  };
  return histogram;
}

import { createEventRows } from './event-rows.ts';
import { createHistogram, type Histogram } from './histogram.ts';

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

import type { Clock } from '../ground/clock.ts';
import { isoSeconds } from '../ground/event-fields.ts';
import { type EventTypeCounts, outcomes } from '../observe/outcomes.ts';

/** Nothing but refusals for so long: it is not one caller with one bad argument. */
export const refusalsMs = 10_000;
/** An instance that gets no requests makes no events: so long after its last refusal it is tried again. */
export const restMs = 30_000;

export interface RefusalAlert {
  /** Why the last event was refused: one line. Those of worker threads are only counted. */
  refused(reason: string): void;
  /** Looks at the counts, and says in one line that events are refused and nothing else; for the health endpoint. */
  state(): string | undefined;
  /** Whether that is so, and one was refused lately; for the readiness endpoint. */
  isGoingOn(): boolean;
}

const others = outcomes.filter((outcome) => outcome !== 'refused');

/**
 * The alarm of what no tier ever sees. It has no timer: the counts are compared whenever health is asked for, so that refusals have to be
 * seen twice, `refusalsMs` apart, and one event with another outcome ends it.
 */
export function createRefusalAlert(rows: () => Iterable<EventTypeCounts>, clock: Clock): RefusalAlert {
  let seen = { refused: 0, other: 0 };
  /** How many were refused when something else happened last. */
  let refusedBefore = 0;
  /** First look that found a refusal since then. */
  let firstAtMs: number | undefined;
  /** Last look that found one more. */
  let lastAtMs = Number.NEGATIVE_INFINITY;
  let isAlarm = false;
  let reason: string | undefined;

  function count(): typeof seen {
    const sums = { refused: 0, other: 0 };
    for (const row of rows()) {
      sums.refused += row.refused;
      for (const outcome of others) sums.other += row[outcome];
    }
    return sums;
  }

  function look(): void {
    const now = count();
    const isMore = now.refused > seen.refused;
    if (now.other !== seen.other) {
      refusedBefore = now.refused;
      firstAtMs = undefined;
      isAlarm = false;
      reason = undefined;
    } else if (isMore) {
      lastAtMs = clock.monotonic();
      firstAtMs ??= lastAtMs;
      isAlarm ||= lastAtMs - firstAtMs >= refusalsMs;
    }
    seen = now;
  }

  return {
    isGoingOn() {
      look();
      return isAlarm && clock.monotonic() - lastAtMs < restMs;
    },
    refused(message) {
      reason = message;
    },
    state() {
      look();
      if (!isAlarm || firstAtMs === undefined) return undefined;
      const since = isoSeconds(clock.now() - (clock.monotonic() - firstAtMs));
      const why = reason === undefined ? 'the log of its worker threads says why' : `the last one, ${reason}`;
      return `events are refused, and nothing else has become of any since ${since} (${seen.refused - refusedBefore}): ${why}`;
    },
  };
}

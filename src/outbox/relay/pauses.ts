import { backoffMs, type Clock } from '../../ground/clock.ts';

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Topics or partitions that take nothing for a while, each time twice as long. */
export interface Pauses {
  /** True: it was not paused before, nor has it been resumed since. */
  pause(key: string): boolean;
  /**
   * Until the next pass begins, which reads the rows that were left out: in the middle of one, later rows would be sent
   * before them.
   */
  has(key: string): boolean;
  /** It took something. True: it was paused before. */
  resume(key: string): boolean;
  /** All are tried again from the next pass on, as if they never had been paused. */
  forget(): void;
  /** A pass begins: what has waited long enough is tried again. */
  newPass(): void;
  /** Milliseconds until the next one is tried again; `Infinity`: there is none. */
  nextMs(): number;
}

export interface PausesOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly clock: Clock;
}

/** Places that are remembered; topic names can come from application data. */
const maxPlaces = 10_000;

export function createPauses({ firstMs, longestMs, clock }: PausesOptions): Pauses {
  const places = new Map<string, Place>();
  const paused = new Set<string>();
  return {
    pause(key) {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      paused.add(key);
      return failures === 1;
    },
    has: (key) => paused.has(key),
    resume(key) {
      return places.size > 0 && !paused.has(key) && places.delete(key);
    },
    forget: () => places.clear(),
    newPass() {
      const nowMs = clock.monotonic();
      for (const key of paused) if ((places.get(key)?.untilMs ?? 0) <= nowMs) paused.delete(key);
    },
    nextMs() {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const key of paused) nextMs = Math.min(nextMs, places.get(key)?.untilMs ?? 0);
      return Math.max(0, nextMs - clock.monotonic());
    },
  };
}

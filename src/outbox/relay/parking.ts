import { backoffMs, type Clock } from '../../ground/clock.ts';

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Topics or partitions that take nothing for a while, each time twice as long. */
export interface Parking {
  /** True: it was not parked before, nor has it been free since. */
  park(key: string): boolean;
  /**
   * Until the next pass begins, which reads the rows that were left out: in the middle of one, later rows would be sent
   * before them.
   */
  has(key: string): boolean;
  /** It took something. True: it was parked before. */
  free(key: string): boolean;
  /** All are tried again from the next pass on, as if they never had been parked. */
  forget(): void;
  /** A pass begins: what has waited long enough is tried again. */
  newPass(): void;
  /** Milliseconds until the next one is tried again; `Infinity`: there is none. */
  nextMs(): number;
}

export interface ParkingOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly clock: Clock;
}

/** Places that are remembered; topic names can come from application data. */
const maxPlaces = 10_000;

export function createParking({ firstMs, longestMs, clock }: ParkingOptions): Parking {
  const places = new Map<string, Place>();
  const parked = new Set<string>();
  return {
    park(key) {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      parked.add(key);
      return failures === 1;
    },
    has: (key) => parked.has(key),
    free(key) {
      return places.size > 0 && !parked.has(key) && places.delete(key);
    },
    forget: () => places.clear(),
    newPass() {
      const nowMs = clock.monotonic();
      for (const key of parked) if ((places.get(key)?.untilMs ?? 0) <= nowMs) parked.delete(key);
    },
    nextMs() {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const key of parked) nextMs = Math.min(nextMs, places.get(key)?.untilMs ?? 0);
      return Math.max(0, nextMs - clock.monotonic());
    },
  };
}

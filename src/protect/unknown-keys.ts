import type { Clock } from '../clock.ts';

/**
 * How many data keys that a key service turns out not to know it is asked about: foreign data must not become a load on it. So
 * many at once, and one more after each `everyMs`. Those that it does know cost nothing.
 */
export const unknownKeys = { atOnce: 50, everyMs: 200, perEvent: 8 };

export interface UnknownKeys {
  /** `false`: the service must not be asked now. Otherwise it counts, until it is given back. */
  take(): boolean;
  /** The service knew the key. */
  giveBack(): void;
}

export function limitUnknownKeys(clock: Clock): UnknownKeys {
  const { atOnce, everyMs } = unknownKeys;
  let taken = 0;
  let countedAtMs = clock.monotonic();
  return {
    take() {
      const passed = Math.floor((clock.monotonic() - countedAtMs) / everyMs);
      taken = Math.max(0, taken - passed);
      countedAtMs += passed * everyMs;
      if (taken >= atOnce) return false;
      taken++;
      return true;
    },
    giveBack() {
      taken = Math.max(0, taken - 1);
    },
  };
}

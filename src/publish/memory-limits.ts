/** What may be in memory at once over all topics: waiting, under way, or waiting for a retry. */
export interface MemoryLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/** Counts what is in memory. Nobody waits for room: what does not fit is refused. */
export interface Memory {
  take(bytes: number): boolean;
  give(bytes: number): void;
  readonly events: number;
  readonly bytes: number;
  /** Events that were refused so far. */
  readonly overflows: number;
}

export function createMemory({ maxEvents, maxBytes }: MemoryLimits): Memory {
  let events = 0;
  let bytes = 0;
  let overflows = 0;
  return {
    take(size) {
      if (events >= maxEvents || bytes + size > maxBytes) {
        overflows++;
        return false;
      }
      events++;
      bytes += size;
      return true;
    },
    give(size) {
      events--;
      bytes -= size;
    },
    get events() {
      return events;
    },
    get bytes() {
      return bytes;
    },
    get overflows() {
      return overflows;
    },
  };
}

/** Lets a bounded number of sends run at once; the others get their turn in the order in which they asked. */
export interface SendSlots {
  /** Calls `run` at once where a slot is free, else later. */
  take(run: () => void): void;
  give(): void;
}

export function createSendSlots(maxInFlight: number): SendSlots {
  const waiting: (() => void)[] = [];
  let taken = 0;
  let isGiving = false;
  return {
    take(run) {
      if (taken >= maxInFlight || waiting.length > 0) {
        waiting.push(run);
        return;
      }
      taken++;
      run();
    },
    give() {
      taken--;
      // Who has nothing to send any more gives at once: thousands of them must not stand on one another's stack.
      if (isGiving) return;
      isGiving = true;
      try {
        while (taken < maxInFlight && waiting.length > 0) {
          taken++;
          waiting.shift()?.();
        }
      } finally {
        isGiving = false;
      }
    },
  };
}

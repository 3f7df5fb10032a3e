/** Limits over all topics: events that wait, are in flight, or wait for a retry. */
export interface MemoryLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/** Counts events and bytes in memory. It refuses what does not fit, and never waits. */
export function createMemory({ maxEvents, maxBytes }: MemoryLimits) {
  let events = 0;
  let bytes = 0;
  let overflows = 0;
  return {
    reserve(size: number): boolean {
      if (events >= maxEvents || bytes + size > maxBytes) {
        overflows++;
        return false;
      }
      events++;
      bytes += size;
      return true;
    },
    /** Reserves past the limit, for events that were counted elsewhere before. */
    reserveAnyway(size: number): void {
      events++;
      bytes += size;
    },
    release(size: number): void {
      events--;
      bytes -= size;
    },
    get events() {
      return events;
    },
    get bytes() {
      return bytes;
    },
    /** Refused reservations so far. */
    get overflows() {
      return overflows;
    },
  };
}

/** Promises and closures of an event on its way through the tiers, beside its bytes (measured: 9 KB; 3 KB while it waits). */
const bytesOnTheWay = 8 * 1024;

/**
 * Counts what one turn of the event loop sends to the next tiers. None of that can end before the turn does.
 *
 * @param maxBytes called in each turn that adds something; default: an eighth of the heap limit
 */
export function createTickBudget(
  maxBytes: () => number = () => process.getBuiltinModule('node:v8').getHeapStatistics().heap_size_limit / 8,
) {
  let bytes = 0;
  let limit = 0;
  return {
    add(size: number): void {
      if (bytes === 0) {
        limit = maxBytes();
        setImmediate(() => {
          bytes = 0;
        });
      }
      bytes += size + bytesOnTheWay;
    },
    /** From the event that exceeds the budget until the end of the turn. */
    get isFull(): boolean {
      return bytes > limit;
    },
  };
}

/** Limits concurrent sends. The others wait in FIFO order. */
export function createSendSlots(maxInFlight: number) {
  const waiting: (() => void)[] = [];
  let taken = 0;
  let isGiving = false;
  return {
    /** Calls `run` at once if a slot is free, otherwise later. */
    acquire(run: () => void): void {
      if (taken >= maxInFlight || waiting.length > 0) {
        waiting.push(run);
        return;
      }
      taken++;
      run();
    },
    release(): void {
      taken--;
      // A partition with nothing to send releases its slot within `run`. Thousands of them must not nest on the stack.
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

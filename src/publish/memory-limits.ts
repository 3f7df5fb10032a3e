/** What may be in memory at once over all topics: waiting, under way, or waiting for a retry. */
export interface MemoryLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/** Counts what is in memory. Nobody waits for room: what does not fit is refused. */
export interface Memory {
  reserve(bytes: number): boolean;
  /** Takes it where there is no room, too: it is counted elsewhere no more. */
  reserveAnyway(bytes: number): void;
  release(bytes: number): void;
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
    reserve(size) {
      if (events >= maxEvents || bytes + size > maxBytes) {
        overflows++;
        return false;
      }
      events++;
      bytes += size;
      return true;
    },
    reserveAnyway(size) {
      events++;
      bytes += size;
    },
    release(size) {
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

/** What an event may take on its way through the tiers, beside its bytes, in promises and closures (measured: 9 KB; 3 before it begins). */
const bytesOnTheWay = 8 * 1024;

/** Counts what one turn of the event loop sends to the next tiers: none of them ends before that turn is over. */
export interface TickBudget {
  add(bytes: number): void;
  /** Since a turn brought more than fits, and until that turn is over. */
  readonly isFull: boolean;
}

/** @param maxBytes asked for in a turn that brings something; default: an eighth of what the heap may become */
export function createTickBudget(
  maxBytes: () => number = () => process.getBuiltinModule('node:v8').getHeapStatistics().heap_size_limit / 8,
): TickBudget {
  let bytes = 0;
  let limit = 0;
  return {
    add(size) {
      if (bytes === 0) {
        limit = maxBytes();
        setImmediate(() => {
          bytes = 0;
        });
      }
      bytes += size + bytesOnTheWay;
    },
    get isFull() {
      return bytes > limit;
    },
  };
}

/** Lets a bounded number of sends run at once; the others get their turn in the order in which they asked. */
export interface SendSlots {
  /** Calls `run` at once where a slot is free, else later. */
  acquire(run: () => void): void;
  release(): void;
}

export function createSendSlots(maxInFlight: number): SendSlots {
  const waiting: (() => void)[] = [];
  let taken = 0;
  let isGiving = false;
  return {
    acquire(run) {
      if (taken >= maxInFlight || waiting.length > 0) {
        waiting.push(run);
        return;
      }
      taken++;
      run();
    },
    release() {
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

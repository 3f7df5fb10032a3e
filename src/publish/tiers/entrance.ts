import { createMemory, type MemoryLimits } from '../memory-limits.ts';

/** Where events begin their way through the tiers, in their order: an outage sends thousands in one turn. */
export interface Entrance {
  /** Resolves when an event of this size may begin. */
  enter(bytes: number): Promise<void>;
  /** One that has entered has its outcome. */
  leave(): void;
  /** Nobody waits any more. */
  open(): void;
}

export interface EntranceLimits {
  /** Events on their way at once. There one takes some 9 KB of promises and closures, and 3 KB before (measured). */
  readonly maxOnTheWay: number;
  /** Of those that wait. One more, and the first of them begins: the tiers have bounds of their own. */
  readonly waiting: MemoryLimits;
}

export const usualLimits: EntranceLimits = {
  maxOnTheWay: 1_000,
  waiting: { maxEvents: 10_000, maxBytes: 32 * 1024 * 1024 },
};

export function createEntrance(limits = usualLimits): Entrance {
  const memory = createMemory(limits.waiting);
  const waiting: (() => void)[] = [];
  let { maxOnTheWay } = limits;
  let onTheWay = 0;

  const beginFirst = (): void => waiting.shift()?.();

  return {
    enter(bytes) {
      while (onTheWay >= maxOnTheWay || waiting.length > 0) {
        if (memory.take(bytes)) {
          return new Promise((resolve) => {
            waiting.push(() => {
              memory.give(bytes);
              onTheWay++;
              resolve();
            });
          });
        }
        if (waiting.length === 0) break;
        beginFirst();
      }
      onTheWay++;
      return Promise.resolve();
    },
    leave() {
      onTheWay--;
      if (onTheWay < maxOnTheWay) beginFirst();
    },
    open() {
      maxOnTheWay = Number.POSITIVE_INFINITY;
      while (waiting.length > 0) beginFirst();
    },
  };
}

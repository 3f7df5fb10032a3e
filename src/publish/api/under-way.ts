/** Events that were handed over between two flushes. */
export interface Generation {
  count: number;
}

/** What is under way, so that a flush can wait for what was there when it was called, whatever comes meanwhile. */
export interface UnderWay {
  begin(): Generation;
  end(generation: Generation): void;
  /** Resolves when all that has begun until now has ended. */
  soFar(): Promise<void>;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
}

export function createUnderWay(): UnderWay {
  let current: Generation = { count: 0 };
  let count = 0;
  const older = new Map<Generation, (() => void)[]>();
  const waitingForIdle: (() => void)[] = [];

  function wake(waiting: (() => void)[]): void {
    for (const resolve of waiting.splice(0)) resolve();
  }

  return {
    begin() {
      count++;
      current.count++;
      return current;
    },
    end(generation) {
      generation.count--;
      count--;
      if (generation.count === 0 && generation !== current) {
        const waiting = older.get(generation) ?? [];
        older.delete(generation);
        wake(waiting);
      }
      if (count === 0) wake(waitingForIdle);
    },
    async soFar() {
      if (current.count > 0) {
        older.set(current, []);
        current = { count: 0 };
      }
      await Promise.all(
        [...older.values()].map((waiting) => new Promise<void>((resolve) => waiting.push(resolve))),
      );
    },
    idle: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => waitingForIdle.push(resolve))),
  };
}

/** Runs at most so many pieces of work at a time, in the order in which they came. */
export function takeTurns(mostAtOnce: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let underWay = 0;
  return async (work) => {
    if (underWay === mostAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else underWay++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) underWay--;
      else next();
    }
  };
}

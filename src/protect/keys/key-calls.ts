import { AsyncResource } from 'node:async_hooks';
import { isolate } from '../../observe/isolate.ts';

/** Runs the calls to one key service. */
export type KeyCalls = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Calls to a key service are svc's own work: not captured and without spans. They run outside the request that may have caused
 * them, whose context their connections and timers would keep otherwise.
 */
export function createKeyCalls(): KeyCalls {
  const outside = new AsyncResource('svc keys');
  return (work) => outside.runInAsyncScope(() => isolate(work));
}

/** Runs at most one piece of work per key at a time; who asks meanwhile gets the result of the one under way. */
export function singleFlight<T>(): (key: string, work: () => Promise<T>) => Promise<T> {
  const underWay = new Map<string, Promise<T>>();
  return (key, work) => {
    let flight = underWay.get(key);
    if (flight === undefined) {
      flight = work().finally(() => underWay.delete(key));
      underWay.set(key, flight);
    }
    return flight;
  };
}

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

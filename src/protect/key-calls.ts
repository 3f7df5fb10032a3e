import { AsyncResource } from 'node:async_hooks';
import { startOwnWork } from '../lifecycle.ts';
import { withoutSpans } from '../observe/spans.ts';

/** Runs the calls to one key service. */
export type KeyCalls = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Calls to a key service are svc's own work: not captured and without spans. They run outside the request that may have caused
 * them, whose context their connections and timers would keep otherwise.
 */
export function createKeyCalls(): KeyCalls {
  const outside = new AsyncResource('svc keys');
  return (work) => outside.runInAsyncScope(() => startOwnWork(() => withoutSpans(work)));
}

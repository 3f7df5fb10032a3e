import { types } from 'node:util';
import { shared } from '../../ground/lifecycle.ts';

/**
 * `promise`: native and running; `thenable`: runs, or may run, when somebody calls its `then`; the iterators end when
 * their consumer is done; everything else is a `value`.
 */
export type ResultKind = 'promise' | 'thenable' | 'async iterator' | 'generator' | 'value';

// Not the global of that name, which zone-like libraries replace: the one async functions make.
export const NativePromise = (async () => {})().constructor as PromiseConstructor;

/** The end of the last call that returned a promise, where nobody waits for it yet. */
export interface ToWaitFor {
  settled: Promise<unknown> | undefined;
}

/** Each `then` that svc has put on a running promise. */
export const ownThens = shared('then-of-promises', () => new WeakMap<object, ToWaitFor>());

/**
 * What a function returned, found out without running anything but property reads, as `await` does. Never throws. Of a proxy only
 * `then` is read, which its owner has to answer as soon as an `async` function returns it; any other name may make something.
 */
export function kindOf(result: unknown): ResultKind {
  if (result === null || (typeof result !== 'object' && typeof result !== 'function')) return 'value';
  try {
    const isPromise = types.isPromise(result);
    // First, as `await` does not even read the `then` of such a promise.
    if (isPromise && result instanceof NativePromise && !isOfOtherClass(result)) return 'promise';
    const { then } = result as { then?: unknown };
    if (typeof then === 'function') return isPromise && isRunning(then) ? 'promise' : 'thenable';
    if (!types.isProxy(result)) return iteratorKind(result);
  } catch {
    // A getter of the result threw: that is its owner's business.
  }
  return 'value';
}

/** `await` calls the `then` of a promise only where this holds. */
export function isOfOtherClass(promise: object): boolean {
  return promise.constructor !== NativePromise;
}

/** A subclass with a `then` of its own (query builders) is lazy. One with a `then` of ours was running before. */
function isRunning(then: object): boolean {
  return then === NativePromise.prototype.then || ownThens.has(then);
}

/** Iterators of arrays, maps and sets are values; a generator is a function that is still running. */
function iteratorKind(result: object): ResultKind {
  const { [Symbol.asyncIterator]: ofAsync } = result as Partial<AsyncIterable<unknown>>;
  if (typeof ofAsync !== 'function') return types.isGeneratorObject(result) ? 'generator' : 'value';
  return typeof (result as { next?: unknown }).next === 'function' ? 'async iterator' : 'value';
}

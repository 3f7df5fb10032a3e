import { types } from 'node:util';

/**
 * `promise`: native and running; `thenable`: runs, or may run, when somebody calls its `then`; the iterators end when
 * their consumer is done; everything else is a `value`.
 */
export type ResultKind = 'promise' | 'thenable' | 'async iterator' | 'generator' | 'value';

// Not the global of that name, which zone-like libraries replace: the one async functions make.
const NativePromise = (async () => {})().constructor as PromiseConstructor;

/** What a function returned, found out without running anything but property reads, as `await` does. Never throws. */
export function kindOf(result: unknown): ResultKind {
  if (result === null || (typeof result !== 'object' && typeof result !== 'function')) return 'value';
  try {
    const { then, next } = result as { then?: unknown; next?: unknown };
    if (typeof then === 'function') return isRunning(result, then) ? 'promise' : 'thenable';
    if (typeof next === 'function') return iteratorKind(result);
  } catch {
    // A getter of the result threw: that is its owner's business.
  }
  return 'value';
}

/** A subclass with a `then` of its own (query builders) is lazy; `await` uses that `then` unless the constructor is the native one. */
function isRunning(result: object, then: unknown): boolean {
  if (!(result instanceof NativePromise) && !types.isPromise(result)) return false;
  return result.constructor === NativePromise || then === NativePromise.prototype.then;
}

function iteratorKind(iterator: object): ResultKind {
  if (typeof (iterator as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === 'function')
    return 'async iterator';
  // Iterators of arrays, maps and sets are values; a generator is a function that is still running.
  return types.isGeneratorObject(iterator) ? 'generator' : 'value';
}

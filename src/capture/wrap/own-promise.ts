import { addNote } from '../notes.ts';
import { setOwn } from './property-place.ts';
import { ignore } from './publish-call.ts';
import { isOfOtherClass, NativePromise, ownThens, type ToWaitFor } from './result-kind.ts';

type OnValue = (value: unknown) => unknown;
type OnError = ((error: unknown) => unknown) | undefined;
type Then = (this: unknown, ...handlers: unknown[]) => unknown;

// Before anything can replace it: `await` takes no other.
const nativeThen = NativePromise.prototype.then as Then;

/**
 * What the caller of a function gets that is not `async`: others may have the promise in hand and handle its rejection, and nothing
 * in JavaScript tells whether they do. So nothing that is derived from it here is ever an unhandled rejection.
 *
 * @param isAwaited whether the caller has to wait for what `onValue` and `onError` return. Where not, the promise itself is handed on.
 * @param id of the target, for a note about a promise that nobody can be made to wait for
 */
export function handOn(
  promise: Promise<unknown>,
  onValue: OnValue,
  onError: OnError,
  isAwaited: boolean,
  id: string,
): Promise<unknown> {
  const settled = observe(promise, onValue, onError);
  settled.then(undefined, ignore);
  if (!isAwaited) return promise;
  if (isPlain(promise)) return settled;
  if (!waitInThen(promise, settled)) {
    const reason =
      'a promise with properties of its own, or a frozen one, was handed on as it is: nobody waits for its event';
    addNote({ winner: id, loser: null, reason });
  }
  return promise;
}

/** Nothing tells it from another native promise with the same end. */
function isPlain(promise: Promise<unknown>): boolean {
  return Object.getPrototypeOf(promise) === NativePromise.prototype && Reflect.ownKeys(promise).length === 0;
}

/** `then` of a subclass constructs another instance of it, which is the application's code: not for a promise that is only watched. */
function observe(promise: Promise<unknown>, onValue: OnValue, onError: OnError): Promise<unknown> {
  const handlers = [onValue, onError];
  if (!isOfOtherClass(promise)) return Reflect.apply(nativeThen, promise, handlers) as Promise<unknown>;
  const own = Object.getOwnPropertyDescriptor(promise, 'constructor');
  if (!setOwn(promise, 'constructor', NativePromise)) {
    // Frozen: as `await` does, whatever its `then` throws.
    return new NativePromise((resolve) => resolve(promise)).then(onValue, onError);
  }
  try {
    return Reflect.apply(nativeThen, promise, handlers) as Promise<unknown>;
  } finally {
    if (own === undefined) Reflect.deleteProperty(promise, 'constructor');
    else Reflect.defineProperty(promise, 'constructor', own);
  }
}

/**
 * The promise stays the object it is, and the first to call its `then`, as `await` does of a subclass, waits. Only the first: who
 * else has the promise in hand is not the caller. False where nobody would.
 */
function waitInThen(promise: Promise<unknown>, settled: Promise<unknown>): boolean {
  const original = promise.then as Then;
  const known = ownThens.get(original);
  if (known !== undefined) {
    known.settled = settled;
    return true;
  }
  if (!isOfOtherClass(promise)) return false;
  const state: ToWaitFor = { settled };
  const then = function (this: unknown, ...handlers: unknown[]): unknown {
    const awaited = state.settled;
    if (awaited === undefined) return Reflect.apply(original, this, handlers);
    state.settled = undefined;
    const after = () => Reflect.apply(nativeThen, awaited, handlers);
    return Reflect.apply(original, this, [after, after]);
  };
  ownThens.set(then, state);
  return setOwn(promise, 'then', then);
}

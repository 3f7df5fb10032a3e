// wrap/: the wrapper of a captured function, and the watch for its result.

import { AsyncLocalStorage } from 'node:async_hooks';
import { types } from 'node:util';
import type { Context } from '@opentelemetry/api';
import { SvcError } from '../../ground/errors.ts';
import { isOwnWork, runOwnWork, shared } from '../../ground/lifecycle.ts';
import { otelApi } from '../../observe/otel-api.ts';
import { currentScope, runInScope, Scope } from '../../transaction/transaction.ts';
import type { Call, CapturePlan, Nest, OnCall } from '../call.ts';
import {
  adopt,
  type Callable,
  heldOf,
  isAsyncFunction,
  remember,
  type WrapTarget,
} from '../captured-functions.ts';
import { addNote } from '../report.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { constructionTarget, hasPrivateStatics, imitate, isConstructor, setOwn } from './imitate.ts';

// The wrapper's frame is on the stack while its function runs: each register and each further frame reduces the application's
// recursion depth. So the wrapper runs the function itself, with as few locals as possible.
const { apply } = Reflect;

/** Errors of svc: expressions pass them through. Any other error is the application's, whose message is not passed on. */
export const ownFailures: WeakSet<object> = new WeakSet<object>();

/** Whether a value may be used. Detects only native promises: this runs for each step of an expression. */
export function isUsable(value: unknown): boolean {
  switch (typeof value) {
    case 'object':
      return !(value instanceof Promise);
    case 'function':
    case 'symbol':
      return false;
    default:
      return true;
  }
}

/**
 * Returns a function that looks and behaves as `fn` does and reports its calls to `slot.onCall`.
 *
 * A captured function comes back as it is; if it serves another target, `slotOf` and `captureNotes` show which one has
 * priority. A value that is not a function comes back as it is, and so does a class with private static members.
 */
export function wrapFunction<F extends Callable>(fn: F, slot: CaptureSlot): F {
  return wrapHeld(fn, { slot });
}

/** As `wrapFunction`, for wrappers that share a target record: the arrow field of every instance of a class. */
export function wrapHeld<F extends Callable>(fn: F, held: WrapTarget): F {
  if (typeof fn !== 'function') return fn;
  const known = heldOf(fn);
  if (known !== undefined) {
    if (known !== held) adopt(known, held.slot);
    return fn;
  }
  if (hasPrivateStatics(fn)) {
    const reason = 'a class with private static members cannot be wrapped: name its methods instead';
    addNote({ winner: held.slot.plan.id, loser: null, reason });
    return fn;
  }
  const wrapper = isConstructor(fn) ? constructible(fn, held) : callable(fn, held);
  imitate(wrapper, fn);
  remember(wrapper, fn, held);
  return wrapper as unknown as F;
}

/** Arrow functions, methods, async functions and generators: they cannot follow `new`. */
function callable(fn: Callable, held: WrapTarget): Callable {
  const captured = { fn, held, isAsync: isAsyncFunction(fn) };
  const { wrapper } = {
    wrapper(this: unknown, ...args: unknown[]): unknown {
      if (isOff(held)) return apply(fn as never, this, args);
      const call = begin(captured, this, args);
      if (call === null) return captureOther(captured, this, args);
      try {
        call.result = apply(fn as never, this, args);
      } catch (error) {
        throw fail(call, error);
      }
      return end(call);
    },
  };
  return wrapper;
}

function constructible(fn: Callable, held: WrapTarget): Callable {
  const captured = { fn, held, isAsync: false };
  const wrapper = function (this: unknown, ...args: unknown[]): unknown {
    if (new.target !== undefined) {
      const target = constructionTarget(new.target as Callable, wrapper, fn);
      return isOff(held)
        ? Reflect.construct(fn as never, args, target)
        : captureConstruction(fn, held.slot, args, target);
    }
    if (isOff(held)) return apply(fn as never, this, args);
    const call = begin(captured, this, args);
    if (call === null) return captureOther(captured, this, args);
    try {
      call.result = apply(fn as never, this, args);
    } catch (error) {
      throw fail(call, error);
    }
    return end(call);
  };
  return wrapper;
}

function isOff({ slot }: WrapTarget): boolean {
  return slot.onCall === null || isOwnWork();
}

/** Starts a call before its function runs; `null` where `captureOther` must run the function. */
function begin(
  { held: { slot }, isAsync }: Captured,
  self: unknown,
  args: readonly unknown[],
): RunningCall | null {
  const { plan } = slot;
  if (plan.phase === 'BEFORE' || hasCallback(plan, args)) return null;
  const nest = slot.toWatch > 0 || watched.looks > 0 ? watch(slot) : undefined;
  const scope = scopeOf(slot, plan, self, args, nest);
  const outer = scope && Scope.enter(scope);
  return { slot, plan, self, args, isAsync, nest, scope, outer, result: undefined };
}

function fail({ slot, plan, self, args, nest, scope, outer }: RunningCall, error: unknown): unknown {
  if (scope !== undefined) Scope.enter(outer);
  if (nest !== undefined) leave(nest);
  tellFailure(slot, plan, self, args, error, scope);
  return error;
}

function end(call: RunningCall): unknown {
  if (call.scope !== undefined) Scope.enter(call.outer);
  if (call.nest !== undefined) leave(call.nest);
  return settle(call);
}

/** Phase BEFORE, and functions that answer through a callback: the return does not end the call. */
function captureOther({ fn, held: { slot }, isAsync }: Captured, self: unknown, args: unknown[]): unknown {
  const { plan } = slot;
  return plan.phase === 'BEFORE'
    ? captureBefore(fn, slot, plan, self, args, isAsync)
    : callWithCallback(fn, slot, plan, self, args);
}

function hasCallback({ callback }: CapturePlan, args: readonly unknown[]): boolean {
  return callback !== undefined && typeof args.at(-1) === 'function';
}

/** `new Wrapped(…)`, also from a subclass: the instance is the result. */
function captureConstruction(fn: Callable, slot: CaptureSlot, args: unknown[], target: never): unknown {
  const plan = slot.plan;
  if (plan.phase === 'BEFORE') {
    publishInBackground(slot, {
      plan,
      self: undefined,
      args,
      result: null,
      error: undefined,
      canWait: false,
    });
    return Reflect.construct(fn as never, args, target);
  }
  let instance: unknown;
  try {
    instance = Reflect.construct(fn as never, args, target);
  } catch (error) {
    tellFailure(slot, plan, undefined, args, error);
    throw error;
  }
  publishInBackground(slot, {
    plan,
    self: instance,
    args,
    result: instance,
    error: undefined,
    canWait: false,
  });
  return instance;
}

function tellFailure(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  error: unknown,
  scope?: Scope,
): void {
  if (plan.phase !== 'AFTER') countFailure(slot, scope);
  else publishFailure(slot, { plan, self, args, result: null, error, canWait: false, scope });
}

/**
 * Phase BEFORE. Only the returned value shows whether the caller can wait. So the event starts first, and a returned
 * promise waits for it. With `failOnError` an async function runs only after its event is published.
 */
function captureBefore(
  fn: Callable,
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: unknown[],
  isAsync: boolean,
): unknown {
  let event: Promise<void> | undefined;
  try {
    event = publishCall(slot, { plan, self, args, result: null, error: undefined, canWait: true });
  } catch (error) {
    if (isAsync) return Promise.reject(error);
    throw error;
  }
  if (event === undefined) return Reflect.apply(fn as never, self, args);
  if (isAsync && plan.failOnError) return event.then(() => Reflect.apply(fn as never, self, args));
  event.then(undefined, ignore);
  const result = Reflect.apply(fn as never, self, args) as unknown;
  if (kindOf(result) !== 'promise') return result;
  const waited = plan.failOnError ? event : event.then(undefined, ignore);
  const onValue = (value: unknown) => waited.then(() => value);
  const promise = result as Promise<unknown>;
  return isAsync ? promise.then(onValue) : passThrough(promise, onValue, undefined, true, plan.id);
}

interface Captured {
  readonly fn: Callable;
  readonly held: WrapTarget;
  /** An `async` function: no other code holds the promise that it returns. */
  readonly isAsync: boolean;
}

/** A call whose function runs, or whose result is pending. */
interface RunningCall {
  readonly slot: CaptureSlot;
  readonly plan: CapturePlan;
  readonly self: unknown;
  readonly args: readonly unknown[];
  readonly isAsync: boolean;
  readonly nest: Nest | undefined;
  readonly scope: Scope | undefined;
  readonly outer: ReturnType<typeof Scope.enter>;
  result: unknown;
}

function callOf(
  { plan, self, args, nest, scope }: RunningCall,
  result: unknown,
  error: unknown,
  canWait: boolean,
): Call {
  return { plan, self, args, result, error, canWait, nest, scope };
}

/** Whether the caller may have to wait for the event, or gets its error. */
function isAwaited({ slot, plan }: Pick<RunningCall, 'slot' | 'plan'>): boolean {
  return plan.failOnError || slot.onCall?.neverWaits !== true;
}

// Captured functions that call each other make two events for one call: `doubledCalls` reports them. svc watches only the first
// calls of each target. All other calls pay two comparisons.

interface Watching {
  readonly storage: AsyncLocalStorage<Nest | undefined>;
  /** How many further calls, of any target, look for a watched call around them. Each watched call adds some. */
  looks: number;
}

const watched = shared<Watching>('watched-calls', () => ({ storage: new AsyncLocalStorage(), looks: 0 }));
const looksOfCall = 16;

function watch(slot: CaptureSlot): Nest | undefined {
  const { storage } = watched;
  const outer = storage.getStore();
  const nest: Nest = { plan: slot.plan, outer, isOver: false, inner: [] };
  if (slot.toWatch > 0) {
    slot.toWatch--;
    watched.looks += looksOfCall;
    storage.enterWith(nest);
    return nest;
  }
  // Promises cost nothing again until another target is watched.
  if (--watched.looks === 0) storage.disable();
  return outer && nest;
}

/** Takes the call off the caller's context: the caller's later calls are not nested in it. */
function leave(nest: Nest): void {
  const { storage } = watched;
  if (storage.getStore() === nest) storage.enterWith(nest.outer);
}

interface CallContext {
  readonly context: Context | undefined;
  /** Runs a function in the asynchronous context (logging, request, trace) of the call. */
  readonly run: <A extends unknown[], R>(fn: (...args: A) => R, ...args: A) => R;
}

/** For results that end outside the caller's context. Costs about a microsecond. Promises keep the context and do not need it. */
function inCallContext(): CallContext {
  return { context: otelApi()?.context.active(), run: AsyncLocalStorage.snapshot() };
}

/** Passes one call to `onCall`. Returns the promise to wait for, if any. Throws only with `failOnError`. */
function publishCall(slot: CaptureSlot, call: Call): Promise<void> | undefined {
  const onCall = slot.onCall;
  // The transaction of the function published the event already, before its COMMIT.
  if (onCall === null || call.scope?.takeEvent() === false) return undefined;
  slot.calls++;
  try {
    return runOwnWork(() =>
      call.plan.when === undefined ? onCall(call) : callWhenWanted(slot, onCall, call),
    );
  } catch (error) {
    if (call.plan.failOnError) throw error;
    return undefined;
  }
}

function callWhenWanted(slot: CaptureSlot, onCall: OnCall, call: Call): Promise<void> | undefined {
  let isWanted: boolean | undefined;
  try {
    isWanted = call.plan.when?.(call);
  } catch (refusal) {
    return onCall(Object.assign(call, { refusal }));
  }
  if (isWanted) return onCall(call);
  slot.skipped++;
  return undefined;
}

/** For a caller that cannot wait: a rejection of the event is ignored. */
function publishInBackground(slot: CaptureSlot, call: Call): void {
  publishCall(slot, call)?.then(undefined, ignore);
}

/** Publishes a failed call. The caller gets the application's own error, whatever the outcome of the event. */
function publishFailure(slot: CaptureSlot, call: Call): Promise<void> | undefined {
  try {
    return publishCall(slot, call)?.then(undefined, ignore);
  } catch {
    return undefined;
  }
}

/** Resolves to `value` when the event has its outcome. Rejects with the event's error only with `failOnError`. */
function afterEvent<T>(event: Promise<void>, value: T, failOnError: boolean): Promise<T> {
  return event.then(() => value, failOnError ? undefined : () => value);
}

function ignore(): void {}

function settle(call: RunningCall): unknown {
  const { result } = call;
  if (call.isAsync) return settlePromise(call, result as Promise<unknown>);
  switch (kindOf(result)) {
    case 'promise':
      return settlePromise(call, result as Promise<unknown>);
    case 'thenable':
      return watchThenable(call, result as PromiseLike<unknown>);
    case 'async iterator':
    case 'generator':
      return watchIterator(call, result as Iterator<unknown> | AsyncIterator<unknown>);
    default:
      publishInBackground(call.slot, callOf(call, result, undefined, false));
      return result;
  }
}

/**
 * Derives one promise from that of an `async` function, without a further microtask if the event needs no wait. The
 * caller gets the derived promise: a side branch on the original would hide its unhandled rejection.
 */
function settlePromise(call: RunningCall, promise: Promise<unknown>): Promise<unknown> {
  const { slot, plan, scope } = call;
  const onValue = (result: unknown): unknown => {
    const event = publishCall(slot, callOf(call, result, undefined, true));
    return event === undefined ? result : afterEvent(event, result, plan.failOnError);
  };
  let onError: (error: unknown) => never | Promise<never> = slot.passOn;
  if (plan.phase === 'AFTER') {
    onError = (error) => {
      const event = publishFailure(slot, callOf(call, null, error, true));
      if (event === undefined) throw error;
      return event.then(() => {
        throw error;
      });
    };
  } else if (scope !== undefined) {
    onError = (error) => {
      countFailure(slot, scope);
      throw error;
    };
  }
  if (call.isAsync) return promise.then(onValue, onError);
  return passThrough(promise, onValue, onError, isAwaited(call), plan.id);
}

/** A scope for a function whose event belongs to a transaction; `undefined` for all others. */
function scopeOf(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  nest?: Nest,
): Scope | undefined {
  const { outbox } = plan;
  if (outbox === undefined) return plan.afterCommit ? new Scope(currentScope()) : undefined;
  const scope = new Scope(currentScope());
  scope.wantsCallbackResult = outbox.result === 'transaction';
  scope.beforeCommit = (given) => {
    const known = scope.wantsCallbackResult || given?.isResult ? given : undefined;
    return publishCall(slot, {
      ...{ plan, self, args, error: undefined, canWait: true, nest, scope },
      postpone: known === undefined ? () => giveBack(slot, scope) : undefined,
      // A getter: only an event that reads the result needs it to be known.
      get result() {
        if (known === undefined) throw resultUnknown(plan);
        return known.value;
      },
    });
  };
  return scope;
}

function giveBack(slot: CaptureSlot, scope: Scope): void {
  slot.calls--;
  scope.hasEvent = false;
}

function inScope<R>(scope: Scope | undefined, work: () => R): R {
  return scope === undefined ? work() : runInScope(scope, work);
}

function resultUnknown({ id, eventType, outbox }: CapturePlan): SvcError {
  const known = 'transaction(…) of an ORM, or saving of TypeORM, MikroORM or Prisma,';
  const found =
    outbox?.result === 'transaction'
      ? `outbox.result: transaction finds no transaction in it, because ${known} did not commit`
      : `set outbox.result: transaction if ${known} gives it`;
  const failure = new SvcError(
    'SVC_CAPTURE_RESULT_UNKNOWN',
    `${id} commits its own transaction before it returns, but its event ${eventType} needs #result: ${found}. Otherwise open it with outbox.runInTransaction, build the event from the arguments, or name a function within the transaction. Or set svc.outbox.on-no-transaction: autocommit, which stores the event afterwards`,
  );
  ownFailures.add(failure);
  return failure;
}

/** `thenable`: may run only when its `then` is called. The iterators end when their consumer is done. */
type ResultKind = 'promise' | 'thenable' | 'async iterator' | 'generator' | 'value';

// The class of the promises that async functions make. Zone-like libraries replace the global of that name.
const NativePromise = (async () => {})().constructor as PromiseConstructor;

/** The event of the last call that returned the promise, until a caller waits for it. */
interface ToWaitFor {
  settled: Promise<unknown> | undefined;
}

const ownThens = shared('then-of-promises', () => new WeakMap<object, ToWaitFor>());

/**
 * Classifies a result by property reads alone, as `await` does. Never throws. Of a proxy only `then` is read, which any
 * result of an `async` function must support; reading another name may create something.
 */
export function kindOf(result: unknown): ResultKind {
  if (result === null || (typeof result !== 'object' && typeof result !== 'function')) return 'value';
  try {
    const isPromise = types.isPromise(result);
    // First, because `await` does not read the `then` of such a promise.
    if (isPromise && result instanceof NativePromise && !isOfOtherClass(result)) return 'promise';
    const { then } = result as { then?: unknown };
    if (typeof then === 'function') return isPromise && isRunning(then) ? 'promise' : 'thenable';
    if (!types.isProxy(result)) return iteratorKind(result);
  } catch {
    // A getter of the result threw: its owner handles that.
  }
  return 'value';
}

/** `await` calls the `then` of a promise only where this holds. */
function isOfOtherClass(promise: object): boolean {
  return promise.constructor !== NativePromise;
}

/** A subclass with its own `then` (query builders) is lazy. With a `then` of svc it was running before. */
function isRunning(then: object): boolean {
  return then === NativePromise.prototype.then || ownThens.has(then);
}

/** Iterators of arrays, maps and sets are values; a generator is a function that is still running. */
function iteratorKind(result: object): ResultKind {
  const { [Symbol.asyncIterator]: ofAsync } = result as Partial<AsyncIterable<unknown>>;
  if (typeof ofAsync !== 'function') return types.isGeneratorObject(result) ? 'generator' : 'value';
  return typeof (result as { next?: unknown }).next === 'function' ? 'async iterator' : 'value';
}

// Taken before fake timers can replace it.
const { nextTick } = process;

type Values = readonly unknown[];

/**
 * A call whose last argument is a Node callback, the error first: the values after the error are the result. The event
 * is published with the first call of the callback. The application sees every call with its arguments.
 *
 * The callback waits for the event as a promise would, but not before the function returns. A synchronous function is
 * never blocked, and its caller may rely on that order.
 */
function callWithCallback(
  fn: Callable,
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: Values,
): unknown {
  const { context, run } = inCallContext();
  let isOpen = true;
  let hasReturned = false;

  const tell = (failed: boolean, values: Values): Promise<void> | undefined => {
    const call = { plan, self, args, context, canWait: hasReturned };
    if (!failed) return run(publishCall, slot, { ...call, result: resultOf(values), error: undefined });
    if (plan.phase === 'AFTER') return run(publishFailure, slot, { ...call, result: null, error: values[0] });
    countFailure(slot);
    return undefined;
  };

  // A proxy keeps the length, name, properties and text of the callback.
  const callback = new Proxy(args.at(-1) as Callable, {
    apply(target, receiver, values) {
      const pass = (given: Values): unknown => Reflect.apply(target as never, receiver, given);
      if (!isOpen) return pass(values);
      isOpen = false;
      let event: Promise<void> | undefined;
      try {
        event = tell(Boolean(values[0]), values);
      } catch (error) {
        return pass([error]);
      }
      if (event === undefined) return pass(values);
      if (!hasReturned) {
        event.then(undefined, ignore);
        return pass(values);
      }
      // Outside the promise: an error of the callback must stay an uncaught exception of the application.
      const later = (given: Values) => nextTick(pass, given);
      event.then(
        () => later(values),
        (error) => later(plan.failOnError ? [error] : values),
      );
      return undefined;
    },
  });

  try {
    return Reflect.apply(fn as never, self, [...args.slice(0, -1), callback]);
  } catch (error) {
    if (isOpen) {
      isOpen = false;
      tell(true, [error]);
    }
    throw error;
  } finally {
    hasReturned = true;
  }
}

/** `callback(null, a, b)` has two results: a list. */
function resultOf([, ...results]: Values): unknown {
  return results.length > 1 ? results : results[0];
}

type Step = { done?: boolean; value?: unknown };
type Method = (...input: unknown[]) => unknown;
type Watched = Iterator<unknown> | AsyncIterator<unknown>;

/** Hooks `next`, `return` and `throw`. The event is published at the end, with the return value, `null` or the error. */
function watchIterator(running: RunningCall, iterator: Watched): Watched {
  const { slot, plan, scope } = running;
  const isAsync = Symbol.asyncIterator in iterator;
  const { context, run } = inCallContext();
  let isOpen = true;
  const call = (result: unknown, error: unknown): Call => {
    isOpen = false;
    return { ...callOf(running, result, error, isAsync), context };
  };
  const onStep = (step: Step): unknown => {
    if (!isOpen || step?.done !== true) return step;
    const event = run(publishCall, slot, call(step.value ?? null, undefined));
    if (event === undefined) return step;
    const waited = afterEvent(event, step, plan.failOnError);
    if (isAsync) return waited;
    waited.catch(() => {});
    return step;
  };
  const onError = (error: unknown): never | Promise<never> => {
    if (!isOpen) throw error;
    const failed = call(null, error);
    if (plan.phase !== 'AFTER') countFailure(slot, scope);
    const event = plan.phase === 'AFTER' ? run(publishFailure, slot, failed) : undefined;
    if (event === undefined || !isAsync) throw error;
    return event.then(() => {
      throw error;
    });
  };
  // Each step of an async generator is a promise that no other code holds.
  const isOurs = types.isGeneratorObject(iterator);
  const onPromise = (step: Promise<Step>): Promise<unknown> =>
    isOurs
      ? step.then(onStep, onError)
      : passThrough(step, onStep as (step: unknown) => unknown, onError, isAwaited(running), plan.id);
  for (const name of ['next', 'return', 'throw'] as const) {
    const method = iterator[name] as Method | undefined;
    if (typeof method !== 'function') continue;
    const hooked = {
      [name](this: unknown, ...input: unknown[]): unknown {
        let step: unknown;
        try {
          step = inScope(scope, () => Reflect.apply(method, this, input));
        } catch (error) {
          return onError(error);
        }
        return kindOf(step) === 'promise' ? onPromise(step as Promise<Step>) : onStep(step as Step);
      },
    };
    setOwn(iterator, name, hooked[name]);
  }
  return iterator;
}

type WatchThenableMethod = (this: unknown, ...args: unknown[]) => unknown;
type Handler = ((value: unknown) => unknown) | undefined | null;

interface Watch {
  /** The scope for the result's own work, which starts with its `then`. */
  readonly scope: Scope | undefined;
  readonly onValue: (value: unknown) => Promise<void> | undefined;
  readonly onError: (error: unknown) => Promise<void> | undefined;
}

/** Pending calls of each thenable, published by its first `then`. One returned repeatedly must not get nested wrappers. */
const openWatches = new WeakMap<object, Watch[]>();

/**
 * A lazy result, such as a query builder. Its `then` is hooked, never called: it runs when, and as often as, its caller
 * wants. The event is published once, with the value of the first run.
 */
function watchThenable(running: RunningCall, thenable: PromiseLike<unknown>): PromiseLike<unknown> {
  const { slot, plan, scope } = running;
  const { context, run } = inCallContext();
  const call = (result: unknown, error: unknown): Call => ({
    ...callOf(running, result, error, true),
    context,
  });
  const watch: Watch = {
    scope,
    onValue: (value) => {
      const event = run(publishCall, slot, call(value, undefined));
      return event && afterEvent(event, undefined, plan.failOnError);
    },
    onError: (error) => {
      if (plan.phase === 'AFTER') return run(publishFailure, slot, call(null, error));
      countFailure(slot, scope);
      return undefined;
    },
  };
  const known = openWatches.get(thenable);
  if (known !== undefined) {
    known.push(watch);
    return thenable;
  }
  const open = [watch];
  const target = thenable as unknown as Record<'then' | 'catch' | 'finally', WatchThenableMethod | undefined>;
  if (!setOwn(thenable, 'then', hookThen(target.then as WatchThenableMethod, open))) {
    const reason = 'a result with a frozen then() made no event, because svc cannot hook it';
    addNote({ winner: plan.id, loser: null, reason });
    return thenable;
  }
  openWatches.set(thenable, open);
  if (typeof target.catch === 'function') setOwn(thenable, 'catch', hookCatch(target.catch));
  if (typeof target.finally === 'function') setOwn(thenable, 'finally', hookFinally(target.finally, open));
  return thenable;
}

function hookThen(original: WatchThenableMethod, open: Watch[]): WatchThenableMethod {
  return function then(this: unknown, ...handlers: unknown[]): unknown {
    if (takesValue(handlers)) return Reflect.apply(original, this, handlers);
    const watches = open.splice(0);
    if (watches.length === 0) return Reflect.apply(original, this, handlers);
    const all = [...observed(watches, handlers[0] as Handler, handlers[1] as Handler), ...handlers.slice(2)];
    return inScope(watches[0]?.scope, () => Reflect.apply(original, this, all));
  };
}

/** A builder method that happens to be named `then`: Kysely's `case().when(…).then(5)`. */
function takesValue(handlers: readonly unknown[]): boolean {
  return handlers.length === 1 && handlers[0] !== undefined && typeof handlers[0] !== 'function';
}

function observed(watches: readonly Watch[], onValue: Handler, onError: Handler): [Handler, Handler] {
  let handlers: [Handler, Handler] = [onValue, onError];
  for (const watch of watches) handlers = after(watch, handlers[0], handlers[1]);
  return handlers;
}

function after(watch: Watch, onValue: Handler, onError: Handler): [Handler, Handler] {
  return [
    (value) => {
      let event: Promise<void> | undefined;
      try {
        event = watch.onValue(value);
      } catch (error) {
        return failOfWatchThenable(onError, error);
      }
      const pass = () => (typeof onValue === 'function' ? onValue(value) : value);
      return event === undefined ? pass() : event.then(pass, (error) => failOfWatchThenable(onError, error));
    },
    (error) => {
      const event = watch.onError(error);
      return event === undefined
        ? failOfWatchThenable(onError, error)
        : event.then(() => failOfWatchThenable(onError, error));
    },
  ];
}

function failOfWatchThenable(onError: Handler, error: unknown): unknown {
  if (typeof onError === 'function') return onError(error);
  throw error;
}

/**
 * `catch(handler)` is `then(undefined, handler)`, but some libraries implement it separately. Filtered forms go to the
 * original.
 */
function hookCatch(original: WatchThenableMethod): WatchThenableMethod {
  return function (this: unknown, ...args: unknown[]): unknown {
    const isPlain = args.length === 1 && typeof args[0] === 'function';
    const then = (this as { then?: WatchThenableMethod } | undefined)?.then;
    return isPlain && typeof then === 'function'
      ? Reflect.apply(then, this, [undefined, args[0]])
      : Reflect.apply(original, this, args);
  };
}

function hookFinally(original: WatchThenableMethod, open: Watch[]): WatchThenableMethod {
  return function (this: unknown, ...args: unknown[]): unknown {
    const promise = inScope(open[0]?.scope, () => Reflect.apply(original, this, args));
    // Most go through `then`, which took the event. Others return a separate promise.
    if (open.length === 0 || kindOf(promise) !== 'promise') return promise;
    return (promise as Promise<unknown>).then(...observed(open.splice(0), undefined, undefined));
  };
}

type OnValue = (value: unknown) => unknown;
type OnError = ((error: unknown) => unknown) | undefined;
type Then = (this: unknown, ...handlers: unknown[]) => unknown;

// Taken before application code can replace it, as `await` uses no other.
const nativeThen = NativePromise.prototype.then as Then;

/**
 * Watches a promise of a function that is not `async`. Other code may hold the same promise and handle its rejection,
 * and JavaScript does not show whether it does. So no promise derived here ever becomes an unhandled rejection.
 *
 * @param isAwaited whether the caller must wait for what `onValue` and `onError` return; if not, it gets the promise
 *   itself
 * @param id of the target, for the note about a promise that cannot be made to wait
 */
export function passThrough(
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
      'a promise with own properties, or a frozen one, was returned unchanged: its caller does not wait for the event';
    addNote({ winner: id, loser: null, reason });
  }
  return promise;
}

/** Whether another native promise with the same outcome can stand in for it. */
function isPlain(promise: Promise<unknown>): boolean {
  return Object.getPrototypeOf(promise) === NativePromise.prototype && Reflect.ownKeys(promise).length === 0;
}

/** A subclass's `then` would construct another instance, which runs application code: use the native `then` to watch. */
function observe(promise: Promise<unknown>, onValue: OnValue, onError: OnError): Promise<unknown> {
  const handlers = [onValue, onError];
  if (!isOfOtherClass(promise)) return Reflect.apply(nativeThen, promise, handlers) as Promise<unknown>;
  const own = Object.getOwnPropertyDescriptor(promise, 'constructor');
  if (!setOwn(promise, 'constructor', NativePromise)) {
    // A frozen promise: adopt it as `await` does, whatever its `then` throws.
    return new NativePromise((resolve) => resolve(promise)).then(onValue, onError);
  }
  try {
    return Reflect.apply(nativeThen, promise, handlers) as Promise<unknown>;
  } finally {
    if (own === undefined) Reflect.deleteProperty(promise, 'constructor');
    else Reflect.defineProperty(promise, 'constructor', own);
  }
}

/** The promise stays the same object. Only the first caller of its `then` waits. False if the `then` cannot be hooked. */
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

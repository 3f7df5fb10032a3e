import { shared } from '../ground/lifecycle.ts';
import { currentScope, runInScope, Scope } from './scope.ts';
import type { CallbackResult } from './transaction.ts';

// biome-ignore lint/suspicious/noExplicitAny: a method of any class
type Method = (this: any, ...args: any[]) => any;

/** What instrumentations put on a function that they have wrapped, OpenTelemetry's among them: the convention of `shimmer`. */
interface Wrapped extends Method {
  readonly __wrapped?: unknown;
  readonly __original?: unknown;
  readonly __unwrap?: unknown;
}

/**
 * Puts a method in the place of another. `behind` gives the one behind it, whenever it is asked: an instrumentation that wraps the
 * method once more, as for each file of a package and for each module system, takes its first wrapper away before. It looks for its
 * marks, and does not find them where ours is in front: then both would stay, and each call make two spans. So ours shows those of
 * what is behind it.
 */
export function patchMethod<Owner, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  make: (behind: () => Owner[Name] & Method) => Owner[Name] & Method,
): void {
  let inner = owner[name] as Owner[Name] & Method & Wrapped;
  const replacement = make(() => inner);
  const unwrap = (): void => {
    if (isWrapped(inner)) inner = inner.__original as typeof inner;
  };
  Object.defineProperties(replacement, {
    name: { value: inner.name, configurable: true },
    length: { value: inner.length, configurable: true },
    __wrapped: { get: () => inner.__wrapped, configurable: true },
    __original: { get: () => inner.__original, configurable: true },
    __unwrap: { get: () => (isWrapped(inner) ? unwrap : undefined), configurable: true },
  });
  owner[name] = replacement;
}

/** The method itself: for what svc does with it on its own account, which is in nobody's spans and durations. */
export function withoutWrappers<F extends Method>(method: F): F {
  let found: Wrapped = method;
  while (isWrapped(found)) found = found.__original as Wrapped;
  return found as F;
}

function isWrapped(method: Wrapped): boolean {
  return (
    method.__wrapped === true &&
    typeof method.__original === 'function' &&
    typeof method.__unwrap === 'function'
  );
}

const patched = shared('patched-drivers', () => new WeakSet<object>());

const bound = shared('bound-drivers', () => new WeakSet<object>());

/** As `patchOnce`, where only callbacks are bound: what is followed later is patched all the same. */
export function bindOnce(prototype: object, bind: () => void): void {
  if (bound.has(prototype) || isPatched(prototype)) return;
  bind();
  bound.add(prototype);
}

/** By any copy of svc. */
export function isPatched(prototype: object): boolean {
  return patched.has(prototype);
}

/** Once per process, however many copies of svc ask for it. What throws was not patched. */
export function patchOnce(prototype: object, patch: () => void): void {
  if (isPatched(prototype)) return;
  patch();
  patched.add(prototype);
}

/**
 * Throws where a part is not what svc calls or changes of it: before anything is patched, so that a version of a package which is
 * built otherwise is left as it is. `methods` are paths to functions: `Client.prototype.query`.
 */
export function assertShape(given: unknown, methods: readonly string[]): void {
  for (const path of methods) {
    let found: unknown = given;
    for (const name of path.split('.')) found = (found as Record<string, unknown> | null | undefined)?.[name];
    if (typeof found !== 'function')
      throw new Error(`it has no ${path}(), unlike the versions that svc knows`);
  }
}

/**
 * An ORM's `transaction(callback)`: all of it runs in a scope of its own, and what the callback returned is known there before the
 * COMMIT is sent. `run` is the ORM's method; it gets the arguments it was called with, the callback among them watched. Without a
 * callback the caller ends the transaction itself, and nothing is changed.
 *
 * `ofPromisesOnly`: a callback that returns anything else ends the transaction itself.
 */
export function runTransaction<R>(
  args: readonly unknown[],
  run: (args: readonly unknown[]) => R,
  ofPromisesOnly = false,
): R {
  const at = args.findIndex((each) => typeof each === 'function');
  if (at < 0) return run(args);
  const callback = args[at] as (...given: unknown[]) => unknown;
  const scope = new Scope(currentScope());
  const watched = function (this: unknown, ...given: unknown[]): unknown {
    const returned: unknown = Reflect.apply(callback, this, given);
    if (!isThenable(returned)) {
      if (!ofPromisesOnly) keep(scope, returned);
      return returned;
    }
    return watch(scope, returned);
  };
  return runInScope(scope, () => run(args.with(at, watched)));
}

/** Whether a captured function around the caller takes for its result what the transaction gives that it opens itself. */
export function isResultWanted(): boolean {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent)
    if (scope.wantsCallbackResult && scope.beforeCommit !== undefined) return true;
  return false;
}

/** An ORM's operation that opens a transaction of its own, with what is asked before its COMMIT. */
export function runWithResult<R>(result: () => CallbackResult | undefined, run: () => R): R {
  const scope = new Scope(currentScope());
  scope.callbackResult = result;
  return runInScope(scope, run);
}

function watch(scope: Scope, returned: PromiseLike<unknown>): PromiseLike<unknown> {
  if (returned instanceof Promise && returned.then === Promise.prototype.then) {
    // The first to ask is the first to be told: before the ORM.
    returned.then((value) => keep(scope, value), nothing);
    return returned;
  }
  // A query that runs when it is asked for its result, and must be asked once.
  return Promise.resolve(returned).then((value) => {
    keep(scope, value);
    return value;
  });
}

function keep(scope: Scope, value: unknown): void {
  scope.callbackResult = { value } satisfies CallbackResult;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

function nothing(): void {}

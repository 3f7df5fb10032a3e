import { currentScope, runInScope, Scope } from './scope.ts';
import type { CallbackResult } from './transaction.ts';

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

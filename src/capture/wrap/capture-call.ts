import { types } from 'node:util';
import { runInScope, type Scope } from '../../transaction/scope.ts';
import type { Callable } from '../captured-functions.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { scopeOf } from './in-scope.ts';
import { ignore, publishCall, publishFailure, publishInBackground } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { settle } from './settle.ts';
import { callWithCallback } from './watch-callback.ts';

/** Calls `fn` and tells of the call, when it starts or when its result is there. */
export function captureCall(fn: Callable, slot: CaptureSlot, self: unknown, args: unknown[]): unknown {
  const plan = slot.plan;
  if (plan.phase === 'BEFORE') return captureBefore(fn, slot, plan, self, args);
  if (plan.callback !== undefined && typeof args.at(-1) === 'function')
    return callWithCallback(fn, slot, plan, self, args);
  const scope = scopeOf(slot, plan, self, args);
  let result: unknown;
  try {
    result =
      scope === undefined
        ? Reflect.apply(fn as never, self, args)
        : runInScope(scope, () => Reflect.apply(fn as never, self, args) as unknown);
  } catch (error) {
    tellFailure(slot, plan, self, args, error, scope);
    throw error;
  }
  return settle(slot, plan, self, args, result, scope);
}

/** `new Wrapped(…)`, also from a subclass: the instance is the result. */
export function captureConstruction(
  fn: Callable,
  slot: CaptureSlot,
  args: unknown[],
  target: never,
): unknown {
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
  args: unknown[],
  error: unknown,
  scope?: Scope,
): void {
  if (plan.phase !== 'AFTER') countFailure(slot, scope);
  else publishFailure(slot, { plan, self, args, result: null, error, canWait: false, scope });
}

/**
 * Phase BEFORE. Whether the caller can wait shows only when the function has returned, so the event starts first and a
 * promise then waits for it. With `failOnError` an async function does not run until its event is through.
 */
function captureBefore(
  fn: Callable,
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: unknown[],
): unknown {
  const isAsync = types.isAsyncFunction(fn);
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
  return (result as Promise<unknown>).then((value) => waited.then(() => value));
}

import { enterScope, type Scope } from '../../transaction/scope.ts';
import type { Callable } from '../captured-functions.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { scopeOf } from './in-scope.ts';
import { handOn } from './own-promise.ts';
import { ignore, publishCall, publishFailure, publishInBackground } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import type { Captured, RunningCall } from './running-call.ts';
import { settle } from './settle.ts';
import { callWithCallback } from './watch-callback.ts';

/** A call before its function runs; `null` where `captureOther` has to run it. */
export function begin(
  { held: { slot }, isAsync }: Captured,
  self: unknown,
  args: readonly unknown[],
): RunningCall | null {
  const { plan } = slot;
  if (plan.phase === 'BEFORE' || hasCallback(plan, args)) return null;
  const scope = scopeOf(slot, plan, self, args);
  const outer = scope && enterScope(scope);
  return { slot, plan, self, args, isAsync, scope, outer, result: undefined };
}

/** Tells of a function that threw; returns the error. */
export function fail({ slot, plan, self, args, scope, outer }: RunningCall, error: unknown): unknown {
  if (scope !== undefined) enterScope(outer);
  tellFailure(slot, plan, self, args, error, scope);
  return error;
}

/** Tells of a function that returned, now or when its result is there; returns what the caller gets. */
export function end(call: RunningCall): unknown {
  if (call.scope !== undefined) enterScope(call.outer);
  return settle(call);
}

/** Phase BEFORE, and functions that answer through a callback: not their return is what counts. */
export function captureOther(
  { fn, held: { slot }, isAsync }: Captured,
  self: unknown,
  args: unknown[],
): unknown {
  const { plan } = slot;
  return plan.phase === 'BEFORE'
    ? captureBefore(fn, slot, plan, self, args, isAsync)
    : callWithCallback(fn, slot, plan, self, args);
}

function hasCallback({ callback }: CapturePlan, args: readonly unknown[]): boolean {
  return callback !== undefined && typeof args.at(-1) === 'function';
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
  args: readonly unknown[],
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
  return isAsync ? promise.then(onValue) : handOn(promise, onValue, undefined, true, plan.id);
}

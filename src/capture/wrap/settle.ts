import type { Scope } from '../../transaction/scope.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { afterEvent, publishCall, publishFailure, publishInBackground } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { watchIterator } from './watch-iterator.ts';
import { watchThenable } from './watch-thenable.ts';

/** Tells of a call that returned `result`, now or when the result is there; returns what the caller gets. */
export function settle(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  result: unknown,
  scope?: Scope,
): unknown {
  switch (kindOf(result)) {
    case 'promise':
      return settlePromise(slot, plan, self, args, result as Promise<unknown>, scope);
    case 'thenable':
      return watchThenable(slot, plan, self, args, result as PromiseLike<unknown>, scope);
    case 'async iterator':
    case 'generator':
      return watchIterator(
        slot,
        plan,
        self,
        args,
        result as Iterator<unknown> | AsyncIterator<unknown>,
        scope,
      );
    default:
      publishInBackground(slot, { plan, self, args, result, error: undefined, canWait: false, scope });
      return result;
  }
}

/**
 * One derived promise and no further microtask where nothing has to be waited for. It is the derived one that the caller
 * gets: a side branch on the original would hide its unhandled rejection.
 */
function settlePromise(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  promise: Promise<unknown>,
  scope: Scope | undefined,
): Promise<unknown> {
  const onValue = (result: unknown): unknown => {
    const event = publishCall(slot, { plan, self, args, result, error: undefined, canWait: true, scope });
    return event === undefined ? result : afterEvent(event, result, plan.failOnError);
  };
  if (plan.phase !== 'AFTER') {
    return keepOwn(
      promise,
      promise.then(onValue, scope === undefined ? slot.passOn : passOnFrom(slot, scope)),
    );
  }
  const onError = (error: unknown): never | Promise<never> => {
    const event = publishFailure(slot, { plan, self, args, result: null, error, canWait: true, scope });
    if (event === undefined) throw error;
    return event.then(() => {
      throw error;
    });
  };
  return keepOwn(promise, promise.then(onValue, onError));
}

function passOnFrom(slot: CaptureSlot, scope: Scope): (error: unknown) => never {
  return (error) => {
    countFailure(slot, scope);
    throw error;
  };
}

/** Promises with something on them (`promise.cancel`, `promise.child`). */
function keepOwn(from: object, to: Promise<unknown>): Promise<unknown> {
  const keys = Object.keys(from);
  for (const key of keys) {
    const descriptor = Object.getOwnPropertyDescriptor(from, key);
    if (descriptor !== undefined) Reflect.defineProperty(to, key, descriptor);
  }
  return to;
}

import { countFailure } from '../slot.ts';
import { handOn } from './own-promise.ts';
import { afterEvent, publishCall, publishFailure, publishInBackground } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { callOf, isAwaited, type RunningCall } from './running-call.ts';
import { watchIterator } from './watch-iterator.ts';
import { watchThenable } from './watch-thenable.ts';

/** Tells of a call that returned, now or when its result is there; returns what the caller gets. */
export function settle(call: RunningCall): unknown {
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
 * Of an `async` function one derived promise, and no further microtask where nothing has to be waited for. It is the derived one
 * that the caller gets: a side branch on the original would hide its unhandled rejection.
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
  return handOn(promise, onValue, onError, isAwaited(call), plan.id);
}

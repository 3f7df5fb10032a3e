import { types } from 'node:util';
import type { Call } from '../call.ts';
import { countFailure } from '../slot.ts';
import { inScope } from './in-scope.ts';
import { handOn } from './own-promise.ts';
import { setOwn } from './property-place.ts';
import { afterEvent, publishCall, publishFailure } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { callOf, inCallContext, isAwaited, type RunningCall } from './running-call.ts';

type Step = { done?: boolean; value?: unknown };
type Method = (...input: unknown[]) => unknown;
type Watched = Iterator<unknown> | AsyncIterator<unknown>;

/**
 * Hooks `next`, `return` and `throw` of the iterator itself, which stays the object it is. The event is published when it
 * is done, with its return value or `null`; when it throws, with the error.
 */
export function watchIterator(running: RunningCall, iterator: Watched): Watched {
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
  // Of an async generator each step is a promise that nobody else has.
  const isOurs = types.isGeneratorObject(iterator);
  const onPromise = (step: Promise<Step>): Promise<unknown> =>
    isOurs
      ? step.then(onStep, onError)
      : handOn(step, onStep as (step: unknown) => unknown, onError, isAwaited(running), plan.id);
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

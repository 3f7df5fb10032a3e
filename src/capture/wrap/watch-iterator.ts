import type { Scope } from '../../transaction/scope.ts';
import type { Call } from '../call.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { inCallContext } from './call-context.ts';
import { inScope } from './in-scope.ts';
import { afterEvent, publishCall, publishFailure } from './publish-call.ts';
import { setOwn } from './set-own.ts';

type Step = { done?: boolean; value?: unknown };
type Method = (...input: unknown[]) => unknown;
type Watched = Iterator<unknown> | AsyncIterator<unknown>;

/**
 * Hooks `next`, `return` and `throw` of the iterator itself, which stays the object it is. The event is published when it
 * is done, with its return value or `null`; when it throws, with the error.
 */
export function watchIterator(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  iterator: Watched,
  scope?: Scope,
): Watched {
  const isAsync = Symbol.asyncIterator in iterator;
  const { context, run } = inCallContext();
  let isOpen = true;
  const call = (result: unknown, error: unknown): Call => {
    isOpen = false;
    return { plan, self, args, result, error, canWait: isAsync, context, scope };
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
  for (const name of ['next', 'return', 'throw'] as const) {
    const method = iterator[name] as Method | undefined;
    if (typeof method === 'function') setOwn(iterator, name, hook(method, name, scope, onStep, onError));
  }
  return iterator;
}

function hook(
  method: Method,
  name: string,
  scope: Scope | undefined,
  onStep: (step: Step) => unknown,
  onError: (error: unknown) => never | Promise<never>,
): Method {
  const hooked = {
    [name](this: unknown, ...input: unknown[]): unknown {
      let step: unknown;
      try {
        step = inScope(scope, () => Reflect.apply(method, this, input));
      } catch (error) {
        return onError(error);
      }
      return step instanceof Promise ? step.then(onStep as never, onError) : onStep(step as Step);
    },
  };
  return hooked[name] as Method;
}

import type { Callable } from '../captured-functions.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { ignore, publishCall, publishFailure } from './publish-call.ts';
import { inCallContext } from './running-call.ts';

// Before the application can replace it: fake timers do.
const { nextTick } = process;

type Values = readonly unknown[];

/**
 * A call whose last argument is a callback in Node's form, the error first: what follows the error is the result. The
 * event is published with the first call of the callback; the application sees every call of it, with what it was given.
 *
 * The callback waits for its event as a promise would, unless it is called before the function has returned: a
 * synchronous function is never blocked, and its caller may count on that order.
 */
export function callWithCallback(
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

  // A proxy: length, name, properties and text of the callback stay what they are, for whoever looks at them.
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
      // Not from inside the promise: what the callback throws is the application's uncaught exception, as it was.
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

// wrap/: what stands in the place of a captured function, and watches for its result.

import { isOwnWork } from '../../ground/lifecycle.ts';
import { adopt, type Callable, heldOf, remember, type WrapTarget } from '../captured-functions.ts';
import { addNote } from '../report.ts';
import type { CaptureSlot } from '../slot.ts';
import { begin, captureConstruction, captureOther, end, fail, isAsyncFunction } from './capture-call.ts';
import { hasPrivateStatics, imitate, isConstructor } from './imitate.ts';

// A wrapper's frame stands on the stack for as long as its function runs: each register of it, and each frame between, takes from
// the depth that an application's recursion reaches. So it runs the function itself, and has as few locals as can be.
const { apply } = Reflect;

/**
 * A function that behaves as `fn` in everything an application can see, and tells `slot.onCall` of its calls.
 *
 * A function that is captured already is returned as it is: where it serves another target, `slotOf` and
 * `captureNotes` tell which one won. Something that is no function, and a class with private static members, comes back
 * untouched.
 */
export function wrapFunction<F extends Callable>(fn: F, slot: CaptureSlot): F {
  return wrapHeld(fn, { slot });
}

/** As `wrapFunction`, for wrappers that change their slot together: the arrow field of every instance of a class. */
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

/** Arrow functions, methods, async functions and generators: nothing that can stand after `new`. */
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

/** The same, and constructs. */
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

/** `new.target === TheClass` inside the class stays true, unless someone gave the wrapper another prototype meanwhile. */
export function constructionTarget(target: Callable, wrapper: Callable, original: Callable): never {
  const isDirect =
    target === wrapper &&
    (wrapper as { prototype?: unknown }).prototype === (original as { prototype?: unknown }).prototype;
  return (isDirect ? original : target) as never;
}

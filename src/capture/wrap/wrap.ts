// wrap/: the wrapper of a captured function, and the watch for its result.

import { isOwnWork } from '../../ground/lifecycle.ts';
import { adopt, type Callable, heldOf, remember, type WrapTarget } from '../captured-functions.ts';
import { addNote } from '../report.ts';
import type { CaptureSlot } from '../slot.ts';
import { begin, captureConstruction, captureOther, end, fail, isAsyncFunction } from './capture-call.ts';
import { hasPrivateStatics, imitate, isConstructor } from './imitate.ts';

// The wrapper's frame is on the stack while its function runs: each register and each further frame reduces the application's
// recursion depth. So the wrapper runs the function itself, with as few locals as possible.
const { apply } = Reflect;

/**
 * Returns a function that looks and behaves as `fn` does and reports its calls to `slot.onCall`.
 *
 * A captured function comes back as it is; if it serves another target, `slotOf` and `captureNotes` show which one has
 * priority. A value that is not a function comes back as it is, and so does a class with private static members.
 */
export function wrapFunction<F extends Callable>(fn: F, slot: CaptureSlot): F {
  return wrapHeld(fn, { slot });
}

/** As `wrapFunction`, for wrappers that share a target record: the arrow field of every instance of a class. */
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

/** Arrow functions, methods, async functions and generators: they cannot follow `new`. */
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

/** Keeps `new.target === TheClass` true inside the class, unless the wrapper has got another prototype. */
export function constructionTarget(target: Callable, wrapper: Callable, original: Callable): never {
  const isDirect =
    target === wrapper &&
    (wrapper as { prototype?: unknown }).prototype === (original as { prototype?: unknown }).prototype;
  return (isDirect ? original : target) as never;
}

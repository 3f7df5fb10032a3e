import type { Scope } from '../../transaction/scope.ts';
import type { Call } from '../call.ts';
import { addNote } from '../notes.ts';
import type { CapturePlan } from '../plan.ts';
import { type CaptureSlot, countFailure } from '../slot.ts';
import { inCallContext } from './call-context.ts';
import { inScope } from './in-scope.ts';
import { afterEvent, publishCall, publishFailure } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { setOwn } from './set-own.ts';

type Method = (this: unknown, ...args: unknown[]) => unknown;
type Handler = ((value: unknown) => unknown) | undefined | null;

interface Watch {
  /** The event is published, or about to be: by the first `then` that its caller makes. */
  isTaken: boolean;
  /** Where the result's own work is done, which begins with its `then`. */
  readonly scope: Scope | undefined;
  readonly onValue: (value: unknown) => Promise<void> | undefined;
  readonly onError: (error: unknown) => Promise<void> | undefined;
}

/**
 * A lazy result, as query builders are. Its `then` is hooked, never called: it runs when, and as often as, its caller
 * wants. The event is published once, with the value of the first run.
 */
export function watchThenable(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
  thenable: PromiseLike<unknown>,
  scope?: Scope,
): PromiseLike<unknown> {
  const { context, run } = inCallContext();
  const call = (result: unknown, error: unknown): Call => ({
    plan,
    self,
    args,
    result,
    error,
    canWait: true,
    context,
    scope,
  });
  const watch: Watch = {
    isTaken: false,
    scope,
    onValue: (value) => {
      const event = run(publishCall, slot, call(value, undefined));
      return event && afterEvent(event, undefined, plan.failOnError);
    },
    onError: (error) => {
      if (plan.phase === 'AFTER') return run(publishFailure, slot, call(null, error));
      countFailure(slot, scope);
      return undefined;
    },
  };
  const target = thenable as unknown as Record<'then' | 'catch' | 'finally', Method | undefined>;
  if (!setOwn(thenable, 'then', hookThen(target.then as Method, watch))) {
    const reason = 'a result whose then() cannot be hooked (it is frozen) made no event';
    addNote({ winner: plan.id, loser: null, reason });
    return thenable;
  }
  if (typeof target.catch === 'function') setOwn(thenable, 'catch', hookCatch(target.catch));
  if (typeof target.finally === 'function') setOwn(thenable, 'finally', hookFinally(target.finally, watch));
  return thenable;
}

function hookThen(original: Method, watch: Watch): Method {
  return function then(this: unknown, ...handlers: unknown[]): unknown {
    if (watch.isTaken || takesValue(handlers)) return Reflect.apply(original, this, handlers);
    watch.isTaken = true;
    const [onValue, onError] = observed(watch, handlers[0] as Handler, handlers[1] as Handler);
    const all = [onValue, onError, ...handlers.slice(2)];
    return inScope(watch.scope, () => Reflect.apply(original, this, all));
  };
}

/** A method of a builder that happens to be called `then`: Kysely's `case().when(…).then(5)`. */
function takesValue(handlers: readonly unknown[]): boolean {
  return handlers.length === 1 && handlers[0] !== undefined && typeof handlers[0] !== 'function';
}

/** The two handlers of the caller, each after the event. */
function observed(watch: Watch, onValue: Handler, onError: Handler): [Handler, Handler] {
  return [
    (value) => {
      let event: Promise<void> | undefined;
      try {
        event = watch.onValue(value);
      } catch (error) {
        return fail(onError, error);
      }
      const pass = () => (typeof onValue === 'function' ? onValue(value) : value);
      return event === undefined ? pass() : event.then(pass, (error) => fail(onError, error));
    },
    (error) => {
      const event = watch.onError(error);
      return event === undefined ? fail(onError, error) : event.then(() => fail(onError, error));
    },
  ];
}

function fail(onError: Handler, error: unknown): unknown {
  if (typeof onError === 'function') return onError(error);
  throw error;
}

/** `catch(handler)` is `then(undefined, handler)`; not every library writes it so. Filtered forms go to the original. */
function hookCatch(original: Method): Method {
  return function (this: unknown, ...args: unknown[]): unknown {
    const isPlain = args.length === 1 && typeof args[0] === 'function';
    const then = (this as { then?: Method } | undefined)?.then;
    return isPlain && typeof then === 'function'
      ? Reflect.apply(then, this, [undefined, args[0]])
      : Reflect.apply(original, this, args);
  };
}

function hookFinally(original: Method, watch: Watch): Method {
  return function (this: unknown, ...args: unknown[]): unknown {
    const promise = inScope(watch.scope, () => Reflect.apply(original, this, args));
    // Most go through `then`, which took the event; the others hand out a promise of their own.
    if (watch.isTaken || kindOf(promise) !== 'promise') return promise;
    watch.isTaken = true;
    return (promise as Promise<unknown>).then(...observed(watch, undefined, undefined));
  };
}

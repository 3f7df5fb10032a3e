import type { Scope } from '../../transaction/scope.ts';
import type { Call } from '../call.ts';
import { addNote } from '../notes.ts';
import { countFailure } from '../slot.ts';
import { inScope } from './in-scope.ts';
import { setOwn } from './property-place.ts';
import { afterEvent, publishCall, publishFailure } from './publish-call.ts';
import { kindOf } from './result-kind.ts';
import { callOf, inCallContext, type RunningCall } from './running-call.ts';

type Method = (this: unknown, ...args: unknown[]) => unknown;
type Handler = ((value: unknown) => unknown) | undefined | null;

interface Watch {
  /** Where the result's own work is done, which begins with its `then`. */
  readonly scope: Scope | undefined;
  readonly onValue: (value: unknown) => Promise<void> | undefined;
  readonly onError: (error: unknown) => Promise<void> | undefined;
}

/**
 * The calls that returned a thenable, each until its event is published, or about to be: by the first `then` that somebody calls.
 * One list for each: a thenable that is returned again and again must not get one `then` around the other.
 */
const openWatches = new WeakMap<object, Watch[]>();

/**
 * A lazy result, as query builders are. Its `then` is hooked, never called: it runs when, and as often as, its caller
 * wants. The event is published once, with the value of the first run.
 */
export function watchThenable(running: RunningCall, thenable: PromiseLike<unknown>): PromiseLike<unknown> {
  const { slot, plan, scope } = running;
  const { context, run } = inCallContext();
  const call = (result: unknown, error: unknown): Call => ({
    ...callOf(running, result, error, true),
    context,
  });
  const watch: Watch = {
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
  const known = openWatches.get(thenable);
  if (known !== undefined) {
    known.push(watch);
    return thenable;
  }
  const open = [watch];
  const target = thenable as unknown as Record<'then' | 'catch' | 'finally', Method | undefined>;
  if (!setOwn(thenable, 'then', hookThen(target.then as Method, open))) {
    const reason = 'a result whose then() cannot be hooked (it is frozen) made no event';
    addNote({ winner: plan.id, loser: null, reason });
    return thenable;
  }
  openWatches.set(thenable, open);
  if (typeof target.catch === 'function') setOwn(thenable, 'catch', hookCatch(target.catch));
  if (typeof target.finally === 'function') setOwn(thenable, 'finally', hookFinally(target.finally, open));
  return thenable;
}

function hookThen(original: Method, open: Watch[]): Method {
  return function then(this: unknown, ...handlers: unknown[]): unknown {
    if (takesValue(handlers)) return Reflect.apply(original, this, handlers);
    const watches = open.splice(0);
    if (watches.length === 0) return Reflect.apply(original, this, handlers);
    const all = [...observed(watches, handlers[0] as Handler, handlers[1] as Handler), ...handlers.slice(2)];
    return inScope(watches[0]?.scope, () => Reflect.apply(original, this, all));
  };
}

/** A method of a builder that happens to be called `then`: Kysely's `case().when(…).then(5)`. */
function takesValue(handlers: readonly unknown[]): boolean {
  return handlers.length === 1 && handlers[0] !== undefined && typeof handlers[0] !== 'function';
}

/** The two handlers of the caller, after the events of all calls. */
function observed(watches: readonly Watch[], onValue: Handler, onError: Handler): [Handler, Handler] {
  let handlers: [Handler, Handler] = [onValue, onError];
  for (const watch of watches) handlers = after(watch, handlers[0], handlers[1]);
  return handlers;
}

function after(watch: Watch, onValue: Handler, onError: Handler): [Handler, Handler] {
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

function hookFinally(original: Method, open: Watch[]): Method {
  return function (this: unknown, ...args: unknown[]): unknown {
    const promise = inScope(open[0]?.scope, () => Reflect.apply(original, this, args));
    // Most go through `then`, which took the event; the others hand out a promise of their own.
    if (open.length === 0 || kindOf(promise) !== 'promise') return promise;
    return (promise as Promise<unknown>).then(...observed(open.splice(0), undefined, undefined));
  };
}

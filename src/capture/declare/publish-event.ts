import { type Callable, heldOf } from '../captured-functions.ts';
import { wrapHeld } from '../wrap/wrap.ts';
import { declareTarget, undeclaredHeld } from './declarations.ts';
import { parameterNames } from './parameter-names.ts';
import type { AnyFunction, PublishEventOptions } from './publish-event-options.ts';

/**
 * Captures one function in code: for bundles, and for functions that have no name to configure.
 *
 * @returns a function that behaves as `fn` and publishes an event per call while svc runs. Call this once per function,
 * where it is made, not once per request.
 */
export function publishEvent<F extends AnyFunction>(options: PublishEventOptions<NoInfer<F>>, fn: F): F {
  // With its arguments swapped, the function works and makes no events: the report says that the options come first.
  if (typeof fn !== 'function' && typeof options === 'function') return publishEvent(options, options);
  if (typeof fn !== 'function') return fn;
  const known = heldOf(fn);
  const held = known ?? undeclaredHeld();
  const wrapper = known === undefined ? wrapHeld(fn as Callable, held) : fn;
  const name = fn.name || options?.eventType || 'anonymous';
  const declared = options as PublishEventOptions;
  declareTarget(
    { origin: 'publishEvent', name, options: declared, parameterNames: parameterNames(fn) },
    held,
  );
  return wrapper as F;
}

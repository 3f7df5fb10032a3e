import { type Callable, heldOf, undeclared, type WrapTarget } from '../captured-functions.ts';
import { wrapHeld } from '../wrap/wrap.ts';
import {
  type AnyFunction,
  type Declaration,
  declareTarget,
  type PublishEventOptions,
} from './declarations.ts';
import { parameterNames } from './parameter-names.ts';

/**
 * Captures one function in code: for bundles, and for functions without a configurable name. Call it once for each
 * function, where it is defined, not once per request.
 *
 * @returns a function that behaves as `fn` and publishes an event per call while svc runs
 */
export function publishEvent<F extends AnyFunction>(options: PublishEventOptions<NoInfer<F>>, fn: F): F {
  // With swapped arguments the function works without events: the report says that the options come first.
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

/** Works for TC39 decorators and TypeScript's legacy ones (`experimentalDecorators`). */
interface PublishEventDecorator<F extends AnyFunction> {
  <This, V extends F>(value: V, context: ClassMethodDecoratorContext<This, V>): V;
  <This, V extends F>(
    value: undefined,
    context: ClassFieldDecoratorContext<This, V>,
  ): (this: This, initial: V) => V;
  <This, V extends F>(
    value: ClassAccessorDecoratorTarget<This, V>,
    context: ClassAccessorDecoratorContext<This, V>,
  ): ClassAccessorDecoratorResult<This, V>;
  <This, V>(value: (this: This) => V, context: ClassGetterDecoratorContext<This, V>): (this: This) => V;
  <This, V>(
    value: (this: This, value: V) => void,
    context: ClassSetterDecoratorContext<This, V>,
  ): (this: This, value: V) => void;
  <V extends F>(target: object, key: string | symbol, descriptor: TypedPropertyDescriptor<V>): void;
}

/**
 * Publishes an event for each call of the decorated method: instance or static, an arrow function in a field (TC39), a
 * getter or setter. Without svc the decorator has no effect. A configured target on the same method has priority, and
 * one call makes one event.
 *
 * @example `@PublishEvent<OrderService['create']>({ payload: ({ result }) => result.id })`
 */
export function PublishEvent<F extends AnyFunction = AnyFunction>(
  options: PublishEventOptions<F> = {},
): PublishEventDecorator<F> {
  const declared = options as PublishEventOptions;
  return ((target: unknown, context: unknown, descriptor?: PropertyDescriptor) =>
    isStandard(context)
      ? decorate(declared, target, context)
      : decorateLegacy(
          declared,
          target as object,
          context as string | symbol,
          descriptor,
        )) as PublishEventDecorator<F>;
}

type StandardContext = Exclude<DecoratorContext, ClassDecoratorContext>;

function isStandard(context: unknown): context is DecoratorContext {
  return typeof context === 'object' && context !== null && 'kind' in context;
}

function decorate(options: PublishEventOptions, target: unknown, context: DecoratorContext): unknown {
  if (context.kind === 'class') {
    fail(
      options,
      context.name ?? 'anonymous class',
      'a class is not called, so it has no event: decorate its methods',
    );
    return undefined;
  }
  const held = undeclaredHeld();
  if (context.kind === 'field') return fieldInitializer(options, context, held);
  if (context.kind === 'accessor') return { init: fieldInitializer(options, context, held) };
  const fn = target as Callable;
  const wrapper = wrapHeld(fn, held);
  // The class has no name yet. A static initializer runs with the class, an instance initializer with the first instance.
  let isDeclared = false;
  context.addInitializer(function (this: unknown) {
    if (isDeclared) return;
    isDeclared = true;
    const go = () => declare(options, nameOf(this, context, wrapper), fn, heldOf(wrapper) ?? held);
    // esbuild names the class (`_Orders` until then) only after its static initializers.
    if (context.static && (this as { name?: string }).name?.startsWith('_')) queueMicrotask(go);
    else go();
  });
  return wrapper;
}

/** Wraps the arrow function of each instance, all with one plan. */
function fieldInitializer(options: PublishEventOptions, context: StandardContext, held: WrapTarget) {
  let isDeclared = false;
  return function (this: unknown, initial: unknown): unknown {
    const isFunction = typeof initial === 'function';
    if (!isDeclared) {
      isDeclared = true;
      const name = nameOf(this, context);
      if (isFunction) declare(options, name, initial as Callable, heldOf(initial) ?? held);
      else fail(options, name, 'the field does not hold a function when it is initialized');
    }
    return isFunction ? wrapHeld(initial as Callable, held) : initial;
  };
}

function decorateLegacy(
  options: PublishEventOptions,
  target: object,
  key: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): PropertyDescriptor | undefined {
  const owner = typeof target === 'function' ? target : target.constructor;
  const name = join(owner?.name, key);
  const part = (['value', 'get', 'set'] as const).find((each) => typeof descriptor?.[each] === 'function');
  if (typeof descriptor !== 'object' || part === undefined) {
    fail(
      options,
      name,
      'a legacy decorator cannot see the value of a field. Make it a method, or use TC39 decorators',
    );
    return undefined;
  }
  const fn = descriptor[part] as Callable;
  const held = heldOf(fn) ?? undeclaredHeld();
  const wrapper = wrapHeld(fn, held);
  declare(options, name, fn, held);
  return { ...descriptor, [part]: wrapper };
}

function declare(options: PublishEventOptions, name: string, fn: Callable, held: WrapTarget): void {
  const declaration: Declaration = { origin: 'decorator', name, options, parameterNames: parameterNames(fn) };
  declareTarget(declaration, held);
}

function fail(options: PublishEventOptions, name: string, problem: string): void {
  declareTarget({ origin: 'decorator', name, options, parameterNames: undefined, problem }, undeclaredHeld());
}

/** `ClassName.method`: the class that defines the method, even if a subclass makes the first instance. */
function nameOf(self: unknown, context: StandardContext, wrapper?: Callable): string {
  if (context.static) return join((self as { name?: string } | undefined)?.name, context.name);
  let named: object | null = null;
  for (let owner = self as object | null; owner !== null; owner = Object.getPrototypeOf(owner)) {
    const descriptor = Object.getOwnPropertyDescriptor(owner, context.name);
    if (descriptor === undefined) continue;
    // If another decorator wrapped the wrapper, take the first class with that name.
    named ??= owner;
    if ([descriptor.value, descriptor.get, descriptor.set].includes(wrapper))
      return join(owner.constructor?.name, context.name);
  }
  return join((named ?? (self as object)).constructor?.name, context.name);
}

function join(className: string | undefined, key: string | symbol): string {
  const method = typeof key === 'symbol' ? (key.description ?? 'symbol') : key;
  return className ? `${className}.${method}` : method;
}

function undeclaredHeld(): WrapTarget {
  return { slot: undeclared };
}

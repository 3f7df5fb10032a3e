import { types } from 'node:util';
import { shared } from '../../ground/lifecycle.ts';
import { inEachForm } from '../../ground/names.ts';
import { type Callable, functionText, originalOf, remember, textOf } from '../captured-functions.ts';

/** Own keys of every function, copied one by one or not at all. `arguments` and `caller` throw in strict mode. */
const ownOfFunctions = new Set<string | symbol>(['length', 'name', 'prototype', 'arguments', 'caller']);

interface Metadata {
  getOwnMetadataKeys?(target: object): unknown[];
  getOwnMetadata?(key: unknown, target: object): unknown;
  defineMetadata?(key: unknown, value: unknown, target: object): void;
}

type BuiltIn = (this: unknown, value?: unknown) => unknown;

const hidden = shared('hidden-wrappers', () => ({ done: false }));

/**
 * Makes three built-in functions answer for a captured function, not for its wrapper: V8 tells the two apart. Each replacement
 * looks like the built-in function. With `--frozen-intrinsics`, the text stays that of the wrapper.
 */
export function hideWrappers(): void {
  if (hidden.done) return;
  hidden.done = true;
  const innermost = (value: unknown): unknown => {
    let inner = value;
    for (let next = originalOf(inner); next !== undefined; next = originalOf(inner)) inner = next;
    return inner;
  };
  const replace = (owner: object, key: string, makeReplacement: (builtIn: BuiltIn) => BuiltIn): void =>
    attempt(() => {
      const place = Object.getOwnPropertyDescriptor(owner, key) as PropertyDescriptor;
      const builtIn = place.value as BuiltIn;
      const replacement = makeReplacement(builtIn);
      copyDescriptor('name', replacement, builtIn);
      copyDescriptor('length', replacement, builtIn);
      if (Reflect.defineProperty(owner, key, { ...place, value: replacement }))
        remember(replacement, builtIn);
    });
  // Methods, because the built-in functions have no `prototype` and are not constructors.
  replace(
    Function.prototype,
    'toString',
    (builtIn) =>
      ({
        method() {
          return Reflect.apply(builtIn, innermost(this), []);
        },
      }).method,
  );
  for (const key of ['isAsyncFunction', 'isGeneratorFunction'] as const) {
    replace(
      types,
      key,
      (builtIn) =>
        ({
          method(value: unknown) {
            return builtIn(innermost(value));
          },
        }).method,
    );
  }
}

/** Makes `wrapper` look like `original`: name, length, prototype, statics, reflect-metadata, text. Never throws. */
export function imitate(wrapper: Callable, original: Callable): void {
  hideWrappers();
  attempt(() => Object.setPrototypeOf(wrapper, layerOf(original)));
  copyDescriptor('name', wrapper, original);
  copyDescriptor('length', wrapper, original);
  attempt(() => copyPrototype(wrapper, original));
  attempt(() => copyOwnProperties(wrapper, original));
  attempt(() => copyMetadata(wrapper, original));
}

export function isConstructor(fn: Callable): boolean {
  try {
    // Does not run `fn`: only tests whether it may follow `new`.
    Reflect.construct(Object, [], fn as new () => unknown);
    return true;
  } catch {
    return false;
  }
}

/** Keeps `new.target === TheClass` true inside the class, unless the wrapper has got another prototype. */
export function constructionTarget(target: Callable, wrapper: Callable, original: Callable): never {
  const isDirect =
    target === wrapper &&
    (wrapper as { prototype?: unknown }).prototype === (original as { prototype?: unknown }).prototype;
  return (isDirect ? original : target) as never;
}

/** `this.#x` in a static method needs the very class that declares it: a wrapper cannot replace a class with private statics. */
export function hasPrivateStatics(fn: Callable): boolean {
  const text = textOf(fn);
  return text.startsWith('class') && /\bstatic\s+(?:async\b\s*|get\s+|set\s+)?\*?\s*#/.test(text);
}

function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // An exotic function (a proxy, a frozen one) may refuse. It is still called.
  }
}

function copyDescriptor(key: string, wrapper: Callable, original: Callable): void {
  attempt(() => {
    const descriptor = Object.getOwnPropertyDescriptor(original, key);
    if (descriptor !== undefined) Object.defineProperty(wrapper, key, descriptor);
  });
}

function copyPrototype(wrapper: Callable, original: Callable): void {
  const descriptor = Object.getOwnPropertyDescriptor(original, 'prototype');
  if (descriptor === undefined) return;
  Object.defineProperty(wrapper, 'prototype', descriptor);
  const prototype = descriptor.value as { constructor?: unknown } | null | undefined;
  // `instance.constructor` is compared with the exported wrapper.
  if (prototype == null || !Object.hasOwn(prototype, 'constructor') || prototype.constructor !== original)
    return;
  const own = Object.getOwnPropertyDescriptor(prototype, 'constructor');
  if (own?.configurable) Object.defineProperty(prototype, 'constructor', { ...own, value: wrapper });
}

function copyOwnProperties(wrapper: Callable, original: Callable): void {
  for (const key of Reflect.ownKeys(original)) {
    if (ownOfFunctions.has(key)) continue;
    const descriptor = Object.getOwnPropertyDescriptor(original, key);
    if (descriptor === undefined) continue;
    const isState = 'value' in descriptor && descriptor.writable && typeof descriptor.value !== 'function';
    Object.defineProperty(wrapper, key, isState ? forward(original, key, descriptor) : descriptor);
  }
}

/** The wrapper and the original share the mutable state of a class or function. */
function forward(
  original: Callable,
  key: string | symbol,
  descriptor: PropertyDescriptor,
): PropertyDescriptor {
  return {
    configurable: true,
    enumerable: descriptor.enumerable === true,
    get: () => Reflect.get(original, key),
    set: (value: unknown) => {
      Reflect.set(original, key, value);
    },
  };
}

/** `getMetadata` finds it through the prototype; `getOwnMetadata` does not. */
function copyMetadata(wrapper: Callable, original: Callable): void {
  const metadata = Reflect as Metadata;
  if (typeof metadata.getOwnMetadataKeys !== 'function') return;
  for (const key of metadata.getOwnMetadataKeys(original)) {
    metadata.defineMetadata?.(key, metadata.getOwnMetadata?.(key, original), wrapper);
  }
}

/**
 * A layer between the wrapper and the original, from which the wrapper inherits. It answers with the original's text,
 * which dependency injection reads for parameter names, and with its output in `console.log`. The wrapper itself gets
 * no extra key.
 */
function layerOf(original: Callable): object {
  const looksOther = types.isAsyncFunction(original) || types.isGeneratorFunction(original);
  return Object.create(original, looksOther || textOf(original).startsWith('class') ? looks : text);
}

const text: PropertyDescriptorMap = {
  toString: {
    ...{ configurable: true, enumerable: false, writable: true },
    value(this: unknown): string {
      // A subclass inherits this as a static, and has its own text.
      const original = originalOf(this);
      if (original === undefined) return functionText.call(this);
      return String(Reflect.apply((original as { toString: () => string }).toString, original, []));
    },
  },
};

type Inspect = (value: unknown, options: object) => string;

const looks: PropertyDescriptorMap = {
  ...text,
  [Symbol.for('nodejs.util.inspect.custom')]: {
    ...{ configurable: true, enumerable: false, writable: true },
    value(this: unknown, _: number, options: object, inspect: Inspect): string {
      const plain = inspect(this, { ...options, customInspect: false });
      const original = originalOf(this);
      if (original === undefined) return plain;
      const [head] = /^\[[^\]]*\]/.exec(inspect(original, { customInspect: false })) ?? [];
      return head === undefined ? plain : plain.replace(/\[Function[^\]]*\](?: \w+Function)?/, () => head);
    },
  },
};

interface PropertyPlace {
  readonly owner: object;
  readonly key: string;
  readonly descriptor: PropertyDescriptor;
  readonly isOwn: boolean;
}

/**
 * Ignores the properties of every object and function. `undefined` also for an `owner` that cannot have properties. If
 * the exact key is missing, a key that differs only in Unicode normalization matches.
 */
export function findPlace(owner: unknown, key: string): PropertyPlace | undefined {
  if (!canHaveProperties(owner)) return undefined;
  const place = placeOf(owner, key);
  if (place !== undefined) return place;
  for (const form of inEachForm(key).slice(1)) {
    const other = placeOf(owner, form);
    if (other !== undefined) return other;
  }
  return undefined;
}

function placeOf(owner: object, key: string): PropertyPlace | undefined {
  let holder: object | null = owner;
  while (holder !== null) {
    const descriptor = Object.getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined) return { owner, key, descriptor, isOwn: holder === owner };
    holder = Object.getPrototypeOf(holder) as object | null;
    if (holder === Object.prototype || holder === Function.prototype) return undefined;
  }
  return undefined;
}

type Wrapper = Pick<PropertyDescriptor, 'value'> | Pick<PropertyDescriptor, 'get'>;

/** Keeps the property's flags. An inherited one is shadowed by a hidden own property of `owner`. `false` if it is locked. */
export function putInPlace({ owner, key, descriptor, isOwn }: PropertyPlace, wrapper: Wrapper): boolean {
  return Reflect.defineProperty(owner, key, {
    ...descriptor,
    ...wrapper,
    ...(!isOwn && { enumerable: false }),
  });
}

const layers = shared('prototype-layers', () => new WeakSet<object>());

/**
 * As `putInPlace`, for an object that exists once. An inherited property goes into a layer before the prototype: the
 * object gets no extra key, and other objects of the prototype do not change.
 */
export function putAhead(place: PropertyPlace, wrapper: Wrapper): boolean {
  const { owner, key, descriptor, isOwn } = place;
  if (isOwn) return putInPlace(place, wrapper);
  const prototype = Object.getPrototypeOf(owner) as object | null;
  const isThere = prototype !== null && layers.has(prototype);
  const layer = isThere ? prototype : (Object.create(prototype) as object);
  if (!Reflect.defineProperty(layer, key, { ...descriptor, ...wrapper, configurable: true })) return false;
  if (isThere) return true;
  layers.add(layer);
  return (
    Reflect.setPrototypeOf(owner, layer) && Reflect.get(owner, key) === (wrapper as { value?: unknown }).value
  );
}

export function canHaveProperties(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

/** Puts a hidden own property on the application's object; false if it refuses (frozen, a strict proxy). */
export function setOwn(owner: object, key: string, value: unknown): boolean {
  try {
    const descriptor = { value, configurable: true, enumerable: false, writable: true };
    return Reflect.defineProperty(owner, key, descriptor) && Reflect.get(owner, key) === value;
  } catch {
    return false;
  }
}

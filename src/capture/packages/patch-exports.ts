import { types } from 'node:util';
import { didYouMean } from '../../ground/names.ts';
import { type Callable, heldOf } from '../captured-functions.ts';
import { parameterNames } from '../declare/parameter-names.ts';
import type { CaptureSlot } from '../slot.ts';
import type { FunctionPath } from '../source/function-path.ts';
import { canHaveProperties, findPlace, hasPrivateStatics, putInPlace } from '../wrap/imitate.ts';
import { wrapFunction } from '../wrap/wrap.ts';
import { type WrapResult, wrapFactory } from '../wrap/wrap-property.ts';

/** One target's part in the work on a module. */
export interface ExportTarget {
  readonly path: FunctionPath;
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
  /** Told when a factory's object is patched, or cannot be: later than the module is loaded. */
  readonly onMethod: (method: string, result: WrapResult) => void;
}

export type PatchOutcome =
  | { readonly result: 'wrapped' | 'already'; readonly exports: unknown }
  | { readonly problem: string; readonly exports: unknown };

/**
 * Captures one function among the exports of a CommonJS module, in place where that is possible. `exports` of the answer
 * is what the module's users must get: often the same object.
 */
export function patchExports(exports: unknown, target: ExportTarget): PatchOutcome {
  const names = inside(exports, target.path.names);
  if (names.length === 0) return patchWhole(exports, target);
  const owner = walk(exports, names.slice(0, -1));
  if ('problem' in owner) return { problem: owner.problem, exports };
  return patchMember(exports, owner.value, names, target);
}

/** The names from `exports` on: `default`, and the name of an exported class, can mean the exports themselves. */
function inside(exports: unknown, names: readonly string[]): readonly string[] {
  const [head = '', ...rest] = names;
  if (has(exports, head)) return names;
  const isWhole = head === 'default' || (typeof exports === 'function' && exports.name === head);
  if (isWhole) return rest;
  // `import x from 'x'` of a transpiled package: its functions sit on the default export.
  const inner = read(exports, 'default');
  if (
    canHaveProperties(inner) &&
    (has(inner, head) || (typeof inner === 'function' && inner.name === head))
  ) {
    return has(inner, head) ? ['default', ...names] : ['default', ...rest];
  }
  return names;
}

function patchWhole(exports: unknown, target: ExportTarget): PatchOutcome {
  if (typeof exports !== 'function') return { problem: 'the module does not export a function', exports };
  const wrapper = wrapOne(exports as Callable, target);
  if (wrapper === exports) return verdict(exports, target, exports);
  // `module.exports = f; module.exports.default = f`
  putAliases(wrapper, exports, wrapper);
  return { result: 'wrapped', exports: wrapper };
}

function patchMember(
  exports: unknown,
  owner: unknown,
  names: readonly string[],
  target: ExportTarget,
): PatchOutcome {
  const last = names.at(-1) as string;
  const name = names.join('.');
  const before = read(owner, last);
  if (!has(owner, last)) return { problem: missing(names, owner), exports };
  if (typeof before !== 'function') return { problem: `${name} is not a function`, exports };
  if (before !== read(owner, last))
    return { problem: `${name} is another function each time that it is read`, exports };
  const isStandIn = isLocked(owner as object, last);
  const locked = { problem: `${name} cannot be replaced: it is not configurable`, exports };
  // Before it is wrapped: a wrapper is the `constructor` of what its class makes.
  if (isStandIn && (owner !== exports || !canStandFor(exports as object, last))) return locked;
  const wrapper = wrapOne(before as Callable, target);
  if (wrapper === before) return verdict(before, target, exports);
  const isPut = !isStandIn && put(owner as object, last, before, wrapper);
  if (!isPut && !isStandIn) return locked;
  if (owner !== exports) return { result: 'wrapped', exports };
  // `module.exports = f; module.exports.f = f`
  const whole =
    exports === before ? wrapper : isPut ? exports : standingFor(exports as object, before, wrapper);
  putAliases(whole as object, before, wrapper);
  return { result: 'wrapped', exports: whole };
}

function isLocked(owner: object, key: string): boolean {
  if (types.isModuleNamespaceObject(owner)) return true;
  const own = Object.getOwnPropertyDescriptor(owner, findPlace(owner, key)?.key ?? key);
  return own === undefined ? !Object.isExtensible(owner) : !own.configurable && own.writable !== true;
}

/** In place; false where the property is locked. Keeps the property's flags, and a getter's liveness. */
function put(owner: object, key: string, before: unknown, wrapper: Callable): boolean {
  if (types.isModuleNamespaceObject(owner)) return false;
  const place = findPlace(owner, key);
  if (place === undefined) return false;
  const { get } = place.descriptor;
  const inPlace = get === undefined ? { value: wrapper } : { get: exchanging(get, before, wrapper) };
  try {
    return putInPlace(place, inPlace) && read(owner, key) === wrapper;
  } catch {
    return false;
  }
}

/** What was one function under several names stays one: `a === b`. Getters of other names are not run. */
function putAliases(exports: object, before: unknown, wrapper: Callable): void {
  for (const key of Reflect.ownKeys(exports)) {
    const descriptor = Object.getOwnPropertyDescriptor(exports, key);
    if (descriptor === undefined || !('value' in descriptor) || descriptor.value !== before) continue;
    if (key !== 'constructor') Reflect.defineProperty(exports, key, { ...descriptor, value: wrapper });
  }
}

/** Returns what `getter` returns, and the wrapper in the place of what was wrapped. */
function exchanging(getter: () => unknown, before: unknown, wrapper: Callable): () => unknown {
  return function (this: unknown): unknown {
    const value = Reflect.apply(getter, this, []);
    return value === before ? wrapper : value;
  };
}

/**
 * Whether another object can stand for exports whose property is locked: a getter as esbuild, webpack and tsc emit them. Methods of
 * other objects than plain ones and functions may need the very object, for what is private in them.
 */
function canStandFor(exports: object, key: string): boolean {
  if (types.isModuleNamespaceObject(exports) || types.isProxy(exports)) return false;
  const own = Object.getOwnPropertyDescriptor(exports, findPlace(exports, key)?.key ?? key);
  if (own?.get === undefined) return false;
  if (typeof exports === 'function') return !hasPrivateStatics(exports as Callable);
  const prototype = Object.getPrototypeOf(exports) as unknown;
  return prototype === null || prototype === Object.prototype;
}

/** The exports themselves in everything, but for the function: its wrapper is found in its place, under each of its names. */
function standingFor(exports: object, before: unknown, wrapper: Callable): object {
  return new Proxy(exports, {
    get(target, key, receiver) {
      const value: unknown = Reflect.get(target, key, receiver);
      if (value !== before) return value;
      const own = Object.getOwnPropertyDescriptor(target, key);
      // JavaScript lets nobody say anything else of a constant.
      const isConstant = own !== undefined && !own.configurable && own.writable === false;
      return isConstant ? value : wrapper;
    },
  });
}

function wrapOne(fn: Callable, target: ExportTarget): Callable {
  const method = target.path.result?.join('.');
  // The parameters of a factory's method are not known before there is one.
  if (method !== undefined) return wrapFactory(fn, { [method]: target.slotFor(undefined) }, target.onMethod);
  return wrapFunction(fn, target.slotFor(parameterNames(fn)));
}

/** The function came back as it was: captured before, or not to be wrapped. */
function verdict(fn: unknown, target: ExportTarget, exports: unknown): PatchOutcome {
  if (target.path.result !== undefined) return { result: 'already', exports };
  const held = heldOf(fn);
  const slot = target.slotFor(parameterNames(fn as Callable));
  if (held?.slot === slot) return { result: 'already', exports };
  const problem = held
    ? `the target ${held.slot.plan.id} captures the same function`
    : 'a class with private static members cannot be wrapped: name its methods instead';
  return { problem, exports };
}

function walk(exports: unknown, names: readonly string[]): { value: unknown } | { problem: string } {
  let value = exports;
  for (const [index, name] of names.entries()) {
    if (!has(value, name)) return { problem: missing(names.slice(0, index + 1), value) };
    value = read(value, name);
  }
  return canHaveProperties(value) ? { value } : { problem: `${names.join('.')} is not an object` };
}

function missing(names: readonly string[], owner: unknown): string {
  const last = names.at(-1) as string;
  const hint = didYouMean(last, namesOf(owner));
  return names.length === 1
    ? `the module has no export ${last}${hint}`
    : `there is no ${names.join('.')}${hint}`;
}

function namesOf(owner: unknown): string[] {
  const names = new Set<string>();
  let holder = canHaveProperties(owner) ? owner : null;
  while (holder !== null && holder !== Object.prototype && holder !== Function.prototype) {
    for (const name of Object.getOwnPropertyNames(holder)) names.add(name);
    holder = Object.getPrototypeOf(holder) as object | null;
  }
  return [...names];
}

function has(owner: unknown, key: string): boolean {
  return findPlace(owner, key) !== undefined;
}

function read(owner: unknown, key: string): unknown {
  try {
    return canHaveProperties(owner) ? Reflect.get(owner, findPlace(owner, key)?.key ?? key) : undefined;
  } catch {
    return undefined;
  }
}

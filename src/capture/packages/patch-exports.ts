import { types } from 'node:util';
import { didYouMean } from '../../ground/nearest-names.ts';
import { type Callable, heldOf } from '../captured-functions.ts';
import { parameterNames } from '../declare/parameter-names.ts';
import type { CaptureSlot } from '../slot.ts';
import type { FunctionPath } from '../source/find/function-path.ts';
import { canHaveProperties, findPlace, putInPlace } from '../wrap/property-place.ts';
import { wrapFunction } from '../wrap/wrap.ts';
import { wrapFactory } from '../wrap/wrap-factory.ts';
import type { WrapResult } from '../wrap/wrap-property.ts';

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

/**
 * The same for the namespace of an import, as import-in-the-middle hands it out: assigning changes what importers see. Of a
 * CommonJS module it is the named exports and, as `default`, the module's exports themselves.
 */
export function patchNamespace(
  namespace: Record<string, unknown>,
  format: string | undefined,
  target: ExportTarget,
): PatchOutcome {
  const isModule = format === undefined ? !('module.exports' in namespace) : format.startsWith('module');
  if (isModule || !canHaveProperties(namespace.default)) return patchExports(namespace, target);
  const outcome = patchExports(namespace.default, target);
  if ('problem' in outcome) return outcome;
  for (const name of ['default', 'module.exports']) if (name in namespace) namespace[name] = outcome.exports;
  const [head] = target.path.names;
  if (head !== undefined && head !== 'default' && head in namespace)
    namespace[head] = read(outcome.exports, head);
  return outcome;
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
  return wrapper === exports ? verdict(exports, target, exports) : { result: 'wrapped', exports: wrapper };
}

function patchMember(
  exports: unknown,
  owner: unknown,
  names: readonly string[],
  target: ExportTarget,
): PatchOutcome {
  const last = names.at(-1) as string;
  const before = read(owner, last);
  if (!has(owner, last)) return { problem: missing(names, owner), exports };
  if (typeof before !== 'function') return { problem: `${names.join('.')} is not a function`, exports };
  const wrapper = wrapOne(before as Callable, target);
  if (wrapper === before) return verdict(before, target, exports);
  if (put(owner as object, last, before, wrapper)) return { result: 'wrapped', exports };
  if (owner !== exports)
    return { problem: `${names.join('.')} cannot be replaced: it is not configurable`, exports };
  return { result: 'wrapped', exports: replacing(exports as object, last, wrapper) };
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

/** Returns what `getter` returns, and the wrapper in the place of what was wrapped. */
function exchanging(getter: () => unknown, before: unknown, wrapper: Callable): () => unknown {
  return function (this: unknown): unknown {
    const value = Reflect.apply(getter, this, []);
    return value === before ? wrapper : value;
  };
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
    return canHaveProperties(owner) ? Reflect.get(owner, key) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What users of a module get instead of exports that are locked: getters as esbuild, swc and tsc emit them, and the
 * namespace of an ES module that `require` returned. Everything but `key` is read live from the original.
 */
function replacing(exports: object, key: string, wrapper: unknown): object {
  const copy = Object.create(Object.getPrototypeOf(exports) as object | null) as object;
  for (const name of Reflect.ownKeys(exports)) {
    const descriptor = Object.getOwnPropertyDescriptor(exports, name);
    Object.defineProperty(copy, name, {
      configurable: true,
      enumerable: descriptor?.enumerable === true,
      get: () => (name === key ? wrapper : Reflect.get(exports, name)),
      set: (value: unknown) => {
        Reflect.set(exports, name, value);
      },
    });
  }
  return copy;
}

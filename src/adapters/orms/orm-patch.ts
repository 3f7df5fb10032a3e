import { shared } from '../../ground/lifecycle.ts';
import { patchMethod } from '../../transaction/patch-method.ts';
import type { CallbackResult } from '../../transaction/transaction.ts';
import { isResultWanted, runTransaction, runWithResult } from '../../transaction/transaction-callback.ts';

/** How svc reaches the transactions of one ORM. */
export interface OrmPatch {
  /** As an application imports it. */
  readonly specifier: string;
  /**
   * Changes the package's classes in place, once however often it is called. Returns whether it knows this version of them, or what
   * `require` has to give instead.
   */
  patch(exports: object): boolean | object;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

const patched = shared('patched-orm-methods', () => new WeakMap<object, Set<string>>());

/** The method of all objects of a class: it runs as before, within a scope of its own. */
export function patchTransaction(prototype: unknown, name: string, ofPromisesOnly = false): boolean {
  return patchRun(prototype, name, (self, args, run) =>
    runTransaction(args, (given) => Reflect.apply(run, self, given), ofPromisesOnly),
  );
}

/**
 * A method that opens a transaction of its own where it is in none. `resultOf` is asked when it is called, and gives what is asked
 * before the COMMIT: what the method has made, or `undefined` where nobody knows.
 */
export function patchOperation(
  prototype: unknown,
  name: string,
  resultOf: (self: unknown, args: readonly unknown[]) => () => CallbackResult | undefined,
): boolean {
  return patchRun(prototype, name, (self, args, run) => {
    const work = (): unknown => Reflect.apply(run, self, args);
    if (!isResultWanted()) return work();
    let result: () => CallbackResult | undefined = () => undefined;
    try {
      result = resultOf(self, args);
    } catch {
      // What was called wrongly says so itself.
    }
    return runWithResult(result, work);
  });
}

/** Puts `run` in the place of a method; it is given the method behind it. Returns whether there is such a method. */
export function patchRun(
  prototype: unknown,
  name: string,
  run: (self: unknown, args: readonly unknown[], behind: Method) => unknown,
): boolean {
  const owner = ownerOf(prototype, name);
  const original = owner?.[name];
  if (owner === undefined || original === undefined) return false;
  const names = patched.get(owner) ?? new Set();
  if (names.has(name)) return true;
  patched.set(owner, names.add(name));
  patchMethod(owner, name, (behind) => {
    const replacement: Method = function (...args) {
      return run(this, args, behind());
    };
    Object.defineProperty(replacement, 'name', { value: original.name, configurable: true });
    return replacement;
  });
  return true;
}

/** What a package exports under a name, itself or in its default export. */
export function exported(exports: unknown, name: string): unknown {
  const own = property(exports, name);
  return own === undefined ? property(property(exports, 'default'), name) : own;
}

export function prototypeOf(type: unknown): unknown {
  return typeof type === 'function' ? type.prototype : undefined;
}

function ownerOf(prototype: unknown, name: string): Record<string, Method> | undefined {
  for (let each = prototype; isObject(each); each = Object.getPrototypeOf(each))
    if (Object.hasOwn(each, name))
      return typeof property(each, name) === 'function' ? (each as never) : undefined;
  return undefined;
}

export function property(value: unknown, name: string): unknown {
  return isObject(value) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

export function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

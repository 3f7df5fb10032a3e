import { isBuiltInMember } from './built-in-prototypes.ts';
import type { Fail } from './failure.ts';
import { isReadingName } from './method-names.ts';
import { isAwaitable, silence } from './promise-values.ts';
import { pureMethod, pureMethodNames } from './pure-methods.ts';
import { isUsable, refusedValue } from './read.ts';

/**
 * The caller of `target.name(args)` at one place of an expression. A method of the application may do more than read: svc
 * can only ask that it is named like one that reads.
 */
export function methodCaller(
  fail: Fail,
  name: string,
): (target: unknown, args: readonly unknown[]) => unknown {
  const mayBeOwn = isReadingName(name);
  const mayBePure = pureMethodNames.has(name);
  // Objects of one class bring the same function, call after call: it needs no second look.
  let allowed: unknown;

  const findOwn = (target: object): unknown => {
    try {
      const method: unknown = Reflect.get(target, name);
      if (method === allowed || typeof method !== 'function' || isBuiltInMember(target, name)) return method;
      allowed = method;
      return method;
    } catch {
      throw fail('reading the method threw an error.');
    }
  };

  return (target, args) => {
    if (target === null || target === undefined) {
      throw fail(`"${name}" was called on ${target}. Write "?." where it may be missing.`);
    }
    const pure = mayBePure ? pureMethod(target, name) : undefined;
    if (pure !== undefined) return callPure(fail, () => pure(target as never, args));
    const method = mayBeOwn && typeof target === 'object' ? findOwn(target) : undefined;
    if (typeof method !== 'function') throw fail(`the value has no method "${name}" that may be called.`);
    if (method !== allowed) throw fail(`"${name}" is a method of a built-in class and refused here.`);
    return callOwn(fail, method, target, args);
  };
}

function callPure(fail: Fail, call: () => unknown): unknown {
  let value: unknown;
  try {
    value = call();
  } catch {
    throw fail('the method cannot be called with these arguments on this value.');
  }
  if (isUsable(value)) return value;
  throw refusedValue(fail, value);
}

/** Calls what the application wrote, and lets neither its error nor a rejection of its promise out. */
export function callOwn(fail: Fail, method: unknown, self: unknown, args: readonly unknown[]): unknown {
  let value: unknown;
  let mustWait: boolean;
  try {
    value = Reflect.apply(method as () => unknown, self, args);
    mustWait = isAwaitable(value);
  } catch {
    throw fail('the application code that it calls threw an error.');
  }
  if (!mustWait && isUsable(value)) return value;
  silence(value);
  throw refusedValue(fail, value);
}

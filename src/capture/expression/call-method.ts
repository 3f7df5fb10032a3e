import type { Fail } from './failure.ts';
import { isReadingName, pureMethod, pureMethodNames } from './pure-methods.ts';
import { isAwaitable, isUsable, refusedValue, silence } from './read.ts';

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

let known: ReadonlySet<object> | undefined;

function collect(): ReadonlySet<object> {
  const { EventEmitter } = process.getBuiltinModule('node:events');
  const stream = process.getBuiltinModule('node:stream');
  const constructors: readonly { readonly prototype: object }[] = [
    ...[
      Object,
      Function,
      Array,
      String,
      Number,
      Boolean,
      Symbol,
      BigInt,
      Date,
      RegExp,
      Error,
      AggregateError,
    ],
    ...[EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError],
    ...[Map, Set, WeakMap, WeakSet, WeakRef, FinalizationRegistry, Promise],
    ...[
      ArrayBuffer,
      SharedArrayBuffer,
      DataView,
      Buffer,
      Int8Array,
      Uint8Array,
      Uint8ClampedArray,
      Int16Array,
    ],
    ...[Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array],
    ...[EventEmitter, EventTarget, AbortController, AbortSignal],
    ...[stream, stream.Readable, stream.Writable, stream.Duplex, stream.Transform, stream.PassThrough],
  ];
  const owners = new Set<object>([Reflect, globalThis, process]);
  for (const { prototype } of constructors) owners.add(prototype);
  // Those without a global name: of typed arrays, iterators and generators.
  const nameless = [new Int8Array(), [].values(), (function* () {})(), (async function* () {})()];
  for (const value of nameless) {
    let owner: object | null = Object.getPrototypeOf(value);
    while (owner !== null) {
      owners.add(owner);
      owner = Object.getPrototypeOf(owner);
    }
  }
  return owners;
}

/**
 * Whether the property that `target` has under `name`, own or inherited, belongs to a prototype of the language or of Node
 * (arrays, promises, buffers, event emitters, streams, …) rather than to the application.
 */
function isBuiltInMember(target: object, name: string): boolean {
  known ??= collect();
  let owner: object | null = target;
  while (owner !== null && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  return owner !== null && known.has(owner);
}

import { isMap, isPromise, isTypedArray } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { Refusal } from './failure.ts';
import type { ExpressionScope } from './scope.ts';

/** Names that lead from a value to its prototype or its class. They are refused in the text and as computed names. */
export const forbiddenNames: ReadonlySet<string> = new Set(
  '__proto__ constructor prototype __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__'.split(
    ' ',
  ),
);

export const outOfReach = 'prototypes and classes are out of reach.';

/** The failure of a value that no expression may hold. */
export function refusedValue(value: unknown): Refusal {
  if (typeof value === 'function' || typeof value === 'symbol')
    return new Refusal(`the value is a ${typeof value}: functions, classes and symbols are refused.`);
  return new Refusal(
    'the value is a promise. Events are built synchronously.',
    'SVC_CAPTURE_EXPRESSION_ASYNC',
  );
}

/** Whether a value that was read may be used. Of promises only the native ones are told here: this runs for each step. */
function isUsable(value: unknown): boolean {
  switch (typeof value) {
    case 'object':
      return !(value instanceof Promise);
    case 'function':
    case 'symbol':
      return false;
    default:
      return true;
  }
}

export function usable(value: unknown): unknown {
  if (isUsable(value)) return value;
  throw refusedValue(value);
}

/** Whether it is a primitive that becomes a text in a short time, and by no code of the application. */
export function isPlain(value: unknown): value is string | number | bigint | boolean | null | undefined {
  if (typeof value === 'bigint') return !isTooBig(value);
  return (
    value === null || (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')
  );
}

/** `target.name`, where `name` is known not to be forbidden. A missing property is `undefined`, as in JavaScript. */
export function readProperty(target: unknown, name: string, call: ExpressionScope): unknown {
  checkOpen(target, name, call);
  const value = (target as Record<string, unknown>)[name];
  if (isUsable(value)) return value;
  silenceIfMadeByGetter(target, name, value);
  throw refusedValue(value);
}

/** `target[key]`: an element of an array or a string, an entry of a map, a property of an object. */
export function readIndex(target: unknown, key: unknown, call: ExpressionScope): unknown {
  if (typeof target === 'string' || Array.isArray(target) || isTypedArray(target)) {
    if (!Number.isInteger(key) || (key as number) < 0 || (key as number) >= target.length)
      throw new Refusal('the list or string has no such index.');
  } else if (isMap(target)) {
    checkOpen(target, key, call);
    return usable(Map.prototype.get.call(target, key));
  } else if (typeof key !== 'string' && !Number.isInteger(key)) {
    throw new Refusal('the index of an object is a string or a whole number.');
  } else if (forbiddenNames.has(key as string)) {
    throw new Refusal(outOfReach);
  }
  return readProperty(target, key as string, call);
}

function checkOpen(target: unknown, field: unknown, { refuses }: ExpressionScope): void {
  const code = refuses?.(target, String(field));
  if (code === undefined) return;
  throw new Refusal('its class marks this field as personal data, and this text goes out in clear.', code);
}

/** True for promises and for other thenables, which are never called: a lazy one would run its query. */
export function isAwaitable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function';
}

/** Calls what the application wrote, and lets no rejection of its promise out. */
export function callOwn(method: unknown, self: unknown, args: readonly unknown[]): unknown {
  const value: unknown = Reflect.apply(method as () => unknown, self, args);
  if (!isAwaitable(value) && isUsable(value)) return value;
  silence(value);
  throw refusedValue(value);
}

/** Takes note of the rejection of a promise that an evaluation made and nobody will await: else it would end the process. */
function silence(value: unknown): void {
  if (!isPromise(value)) return;
  try {
    Promise.prototype.then.call(value, undefined, () => {});
  } catch {
    // A subclass whose constructor throws: there is nothing to attach to.
  }
}

/** The same for a property that was read: a getter makes its promise, but a stored one is the application's to handle. */
function silenceIfMadeByGetter(target: unknown, name: PropertyKey, value: unknown): void {
  if (typeof target !== 'object') return;
  let owner: object | null = target;
  while (owner !== null) {
    const property = Object.getOwnPropertyDescriptor(owner, name);
    if (property?.get !== undefined) silence(value);
    if (property !== undefined) return;
    owner = Object.getPrototypeOf(owner);
  }
}

import { isMap, isPromise, isTypedArray } from 'node:util/types';
import type { Fail } from './failure.ts';

/** The failure of a value that no expression may hold. */
export function refusedValue(fail: Fail, value: unknown): Error {
  if (typeof value === 'function')
    return fail('the value is a function, and functions and classes are refused.');
  if (typeof value === 'symbol') return fail('the value is a symbol.');
  return fail('the value is a promise. Events are built synchronously.', 'SVC_CAPTURE_EXPRESSION_ASYNC');
}

/** Whether a value that was read may be used. Of promises only the native ones are told here: this runs for each step. */
export function isUsable(value: unknown): boolean {
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

/** `target.name`, where `name` is known not to be forbidden. A missing property is `undefined`, as in JavaScript. */
export function readProperty(fail: Fail, target: unknown, name: string): unknown {
  if (target === null || target === undefined) {
    throw fail(`"${name}" was read from ${target}. Write "?." where it may be missing.`);
  }
  return readMember(fail, target, name);
}

function readMember(fail: Fail, target: unknown, name: string): unknown {
  let value: unknown;
  try {
    value = (target as Record<string, unknown>)[name];
  } catch {
    throw fail('reading the property threw an error.');
  }
  if (isUsable(value)) return value;
  silenceIfMadeByGetter(target, name, value);
  throw refusedValue(fail, value);
}

/** `target[key]`: an element of an array or a string, an entry of a map, a property of an object. */
export function readIndex(fail: Fail, target: unknown, key: unknown): unknown {
  if (target === null || target === undefined) {
    throw fail(`an index was read from ${target}. Write "?.[" where it may be missing.`);
  }
  if (typeof target === 'string' || Array.isArray(target) || isTypedArray(target)) {
    const { length } = target;
    if (typeof key !== 'number' || !Number.isInteger(key))
      throw fail('the index of a list or a string is not a whole number.');
    if (key < 0 || key >= length) throw fail('the index is out of range.');
    return readMember(fail, target, key as unknown as string);
  }
  if (isMap(target)) return readEntry(fail, target, key);
  if (typeof key !== 'string' && !(typeof key === 'number' && Number.isInteger(key))) {
    throw fail('the index of an object is not a string or a whole number.');
  }
  const name = String(key);
  if (isForbiddenName(name)) throw fail('prototypes and classes are out of reach.');
  return readMember(fail, target, name);
}

function readEntry(fail: Fail, target: ReadonlyMap<unknown, unknown>, key: unknown): unknown {
  const value: unknown = Map.prototype.get.call(target, key);
  if (isUsable(value)) return value;
  throw refusedValue(fail, value);
}

/** Names that lead from a value to its prototype or its class. They are refused in the text and as computed names. */
const forbiddenNames: ReadonlySet<string> = new Set([
  '__proto__',
  'constructor',
  'prototype',
  '__defineGetter__',
  '__defineSetter__',
  '__lookupGetter__',
  '__lookupSetter__',
]);

export function isForbiddenName(name: string): boolean {
  return forbiddenNames.has(name);
}

/** True for promises and for other thenables, which are never called: a lazy one would run its query. */
export function isAwaitable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function';
}

/** Takes note of the rejection of a promise that an evaluation made and nobody will await: else it would end the process. */
export function silence(value: unknown): void {
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

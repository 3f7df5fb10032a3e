import { isDate, isMap, isSet } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { maxListLength, maxMadeLength, Refusal } from './failure.ts';
import { callOwn, isPlain, usable } from './read.ts';

/** A method of a built-in value. It throws on arguments that it does not take. */
type Method = (target: never, args: readonly unknown[]) => unknown;

function wholeNumber(value: unknown): number {
  if (Number.isInteger(value)) return value as number;
  throw new TypeError('no whole number');
}

/** Only plain arguments: built-in methods would call `toString` of an object, or run a regular expression. */
function builtIns(
  prototype: object,
  names: string,
  others: Record<string, Method> = {},
): Map<string, Method> {
  const table = new Map<string, Method>(Object.entries(others));
  for (const name of names.split(' ')) {
    const method = Reflect.get(prototype, name) as () => unknown;
    table.set(name, (target: unknown, args) => {
      if (typeof target === 'bigint' && isTooBig(target)) throw new RangeError('bigint');
      if (!args.every(isPlain)) throw new TypeError('arguments');
      return Reflect.apply(method, target, args);
    });
  }
  return table;
}

function split(target: string, [separator, limit]: readonly unknown[]): readonly string[] {
  if (typeof separator !== 'string') throw new TypeError('separator');
  const most = limit === undefined ? maxMadeLength + 1 : wholeNumber(limit) >>> 0;
  const parts = target.split(separator, Math.min(most, maxMadeLength + 1));
  if (parts.length > maxMadeLength) throw new RangeError('length');
  return parts;
}

type List = readonly unknown[];

/** A sparse list can be longer than anybody could go through. */
function fair(list: List): List {
  if (list.length > maxListLength) throw new RangeError('length');
  return list;
}

/** The application's subclasses may override methods of a list: so each goes to that of Array itself. */
function search(name: 'includes' | 'indexOf' | 'lastIndexOf'): Method {
  const method: (this: List, item: unknown) => unknown = Array.prototype[name];
  return (target: List, [item]) => method.call(fair(target), item);
}

function join(target: List, [separator = ',']: List): string {
  if (typeof separator !== 'string' || !Array.prototype.every.call(fair(target), isPlain))
    throw new TypeError('join');
  let length = -separator.length;
  for (const item of target) length += separator.length + String(item ?? '').length;
  if (length > maxMadeLength) throw new RangeError('length');
  return Array.prototype.join.call(target, separator);
}

const isEmpty = ({ length }: { readonly length: number }) => length === 0;
const length = (target: { readonly length: number }) => target.length;
const sizes = {
  isEmpty: ({ size }: ReadonlySet<unknown>) => size === 0,
  size: ({ size }: ReadonlySet<unknown>) => size,
};
const hasKey: Method = (target: ReadonlyMap<unknown, unknown>, [key]) => Map.prototype.has.call(target, key);
const hasItem: Method = (target: ReadonlySet<unknown>, [item]) => Set.prototype.has.call(target, item);

const strings = builtIns(
  String.prototype,
  'at charAt endsWith includes indexOf lastIndexOf slice startsWith substring toLowerCase toString toUpperCase trim trimEnd trimStart',
  { split, isEmpty, length },
);
strings.set('contains', strings.get('includes') as Method);
const lists = new Map<string, Method>(
  Object.entries({
    ...{ isEmpty, length, size: length, join, contains: search('includes'), includes: search('includes') },
    ...{ indexOf: search('indexOf'), lastIndexOf: search('lastIndexOf') },
    at: (target: List, [index]: List) => Array.prototype.at.call(target, wholeNumber(index)),
    get: (target: List, [index]: List) => {
      if (wholeNumber(index) < 0 || (index as number) >= target.length) throw new RangeError('index');
      return target[index as number];
    },
    slice: (target: List, args: List) => Array.from(fair(target)).slice(...args.map(wholeNumber)),
  }),
);
const dates = builtIns(
  Date.prototype,
  'getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime getTimezoneOffset getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds toISOString toJSON valueOf',
);
const get: Method = (target: ReadonlyMap<unknown, unknown>, [key]) => Map.prototype.get.call(target, key);
const maps = new Map(Object.entries({ ...sizes, get, has: hasKey, containsKey: hasKey }));
const sets = new Map(Object.entries({ ...sizes, has: hasItem, contains: hasItem }));
const numbers = builtIns(Number.prototype, 'toFixed toPrecision toString');
const bigints = builtIns(BigInt.prototype, 'toString');
const booleans = builtIns(Boolean.prototype, 'toString');

const pureNames = new Set([strings, numbers, lists, dates, maps, sets].flatMap((table) => [...table.keys()]));

function methodsOf(target: unknown): ReadonlyMap<string, Method> | undefined {
  switch (typeof target) {
    case 'string':
      return strings;
    case 'number':
      return numbers;
    case 'bigint':
      return bigints;
    case 'boolean':
      return booleans;
    default:
      if (Array.isArray(target)) return lists;
      if (isDate(target)) return dates;
      if (isMap(target)) return maps;
      return isSet(target) ? sets : undefined;
  }
}

const readingName = /^(?:to|get|is|has|as)[A-Z]\w*$/u;

/** Whether some value can have a method of this name that may be called. */
export function isCallable(name: string): boolean {
  return readingName.test(name) || pureNames.has(name);
}

/**
 * The caller of `target.name(args)` at one place of an expression. A method of the application may do more than read: svc
 * can only ask that it is named like one that reads.
 */
export function methodCaller(name: string): (target: unknown, args: readonly unknown[]) => unknown {
  const mayBePure = pureNames.has(name);
  const mayBeOwn = readingName.test(name);
  // Objects of one class bring the same function, call after call: it needs no second look.
  let allowed: unknown;
  return (target, args) => {
    const pure = mayBePure ? methodsOf(target)?.get(name) : undefined;
    if (pure !== undefined) return usable(pure(target as never, args));
    const method: unknown =
      mayBeOwn && typeof target === 'object' ? Reflect.get(target as object, name) : null;
    if (typeof method !== 'function' || (method !== allowed && isBuiltIn(target as object, name)))
      throw new Refusal(
        `the value has no method "${name}" of its own, and none of a built-in class that may be called.`,
      );
    allowed = method;
    return callOwn(method, target, args);
  };
}

/** What the language and Node bring, and objects may inherit from. */
function builtInOwners(): ReadonlySet<object> {
  const names =
    'Object Function Array String Number Boolean Symbol BigInt Date RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError Map Set WeakMap WeakSet WeakRef FinalizationRegistry Promise ArrayBuffer SharedArrayBuffer DataView Buffer Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array Float32Array Float64Array BigInt64Array BigUint64Array EventTarget AbortController AbortSignal';
  const stream = process.getBuiltinModule('node:stream');
  const classes: unknown[] = [process.getBuiltinModule('node:events').EventEmitter, stream];
  for (const name of names.split(' ')) classes.push(Reflect.get(globalThis, name));
  for (const name of ['Readable', 'Writable', 'Duplex', 'Transform', 'PassThrough'] as const)
    classes.push(stream[name]);
  const owners = new Set<object>([Reflect, globalThis, process]);
  for (const each of classes) owners.add((each as { prototype: object }).prototype);
  // Those without a global name: of typed arrays, iterators and generators.
  for (const value of [new Int8Array(), [].values(), (function* () {})(), (async function* () {})()]) {
    let owner: object | null = Object.getPrototypeOf(value);
    for (; owner !== null; owner = Object.getPrototypeOf(owner)) owners.add(owner);
  }
  return owners;
}

let owners: ReadonlySet<object> | undefined;

/** Whether the property `name`, own or inherited, is one of the language or of Node rather than of the application. */
function isBuiltIn(target: object, name: string): boolean {
  owners ??= builtInOwners();
  let owner: object | null = target;
  while (owner !== null && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  return owner !== null && owners.has(owner);
}

import { isDate, isMap, isSet } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { maxListLength, maxMadeParts, maxMadeStringLength } from './failure.ts';

/** Calls a method of a built-in value. Throws on arguments that it does not take: the caller makes the failure. */
type PureMethod = (target: never, args: readonly unknown[]) => unknown;

type Primitive = string | number | bigint | boolean | null | undefined;

function isPrimitive(value: unknown): value is Primitive {
  return (
    value === null || (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')
  );
}

/** Only primitive arguments: built-in methods would call `toString` of an object, or run a regular expression. */
function builtIn(prototype: object, name: string): PureMethod {
  const method: unknown = Reflect.get(prototype, name);
  if (typeof method !== 'function') throw new TypeError(`no method ${name}`);
  return (target, args) => {
    if (!args.every(isPrimitive)) throw new TypeError('arguments');
    if (typeof target === 'bigint' && isTooBig(target)) throw new RangeError('bigint');
    return Reflect.apply(method, target, args);
  };
}

function builtIns(prototype: object, names: readonly string[]): Record<string, PureMethod> {
  return Object.fromEntries(names.map((name) => [name, builtIn(prototype, name)]));
}

function integer(value: unknown): number {
  if (typeof value !== 'number' || !Number.isInteger(value)) throw new TypeError('integer');
  return value;
}

const strings: Record<string, PureMethod> = {
  ...builtIns(String.prototype, [
    ...['at', 'charAt', 'endsWith', 'includes', 'indexOf', 'lastIndexOf', 'slice', 'startsWith'],
    ...['substring', 'toLowerCase', 'toString', 'toUpperCase', 'trim', 'trimEnd', 'trimStart'],
  ]),
  contains: builtIn(String.prototype, 'includes'),
  split: (target: string, [separator, limit]) => {
    if (typeof separator !== 'string') throw new TypeError('split');
    const most = limit === undefined ? maxMadeParts + 1 : Math.min(integer(limit) >>> 0, maxMadeParts + 1);
    const parts = target.split(separator, most);
    if (parts.length > maxMadeParts) throw new RangeError('length');
    return parts;
  },
  isEmpty: (target: string) => target.length === 0,
  length: (target: string) => target.length,
};

const numbers: Record<string, PureMethod> = builtIns(Number.prototype, [
  'toFixed',
  'toPrecision',
  'toString',
]);

/** A sparse list can be longer than anybody could go through. */
function fair(list: readonly unknown[]): readonly unknown[] {
  if (list.length > maxListLength) throw new RangeError('length');
  return list;
}

function isFairText(item: unknown): boolean {
  return isPrimitive(item) && !(typeof item === 'bigint' && isTooBig(item));
}

/** The application's subclasses may override what these use: so each goes to the method of Array itself. */
const arrays: Record<string, PureMethod> = {
  at: (target: readonly unknown[], args) => Array.prototype.at.call(target, integer(args[0])),
  contains: (target: readonly unknown[], args) => Array.prototype.includes.call(fair(target), args[0]),
  get: (target: readonly unknown[], args) => {
    const index = integer(args[0]);
    if (index < 0 || index >= target.length) throw new RangeError('index');
    return target[index];
  },
  includes: (target: readonly unknown[], args) => Array.prototype.includes.call(fair(target), args[0]),
  indexOf: (target: readonly unknown[], args) => Array.prototype.indexOf.call(fair(target), args[0]),
  isEmpty: (target: readonly unknown[]) => target.length === 0,
  join: (target: readonly unknown[], args) => {
    const separator = args[0] ?? ',';
    if (typeof separator !== 'string' || !Array.prototype.every.call(fair(target), isFairText))
      throw new TypeError('join');
    let made = -separator.length;
    for (const item of target) made += separator.length + String(item ?? '').length;
    if (made > maxMadeStringLength) throw new RangeError('length');
    return Array.prototype.join.call(target, separator);
  },
  lastIndexOf: (target: readonly unknown[], args) => Array.prototype.lastIndexOf.call(fair(target), args[0]),
  length: (target: readonly unknown[]) => target.length,
  size: (target: readonly unknown[]) => target.length,
  slice: (target: readonly unknown[], args) => Array.from(fair(target)).slice(...args.map(integer)),
};

const dates: Record<string, PureMethod> = builtIns(Date.prototype, [
  ...[
    'getDate',
    'getDay',
    'getFullYear',
    'getHours',
    'getMilliseconds',
    'getMinutes',
    'getMonth',
    'getSeconds',
  ],
  ...['getTime', 'getTimezoneOffset', 'getUTCDate', 'getUTCDay', 'getUTCFullYear', 'getUTCHours'],
  ...[
    'getUTCMilliseconds',
    'getUTCMinutes',
    'getUTCMonth',
    'getUTCSeconds',
    'toISOString',
    'toJSON',
    'valueOf',
  ],
]);

const maps: Record<string, PureMethod> = {
  get: (target: ReadonlyMap<unknown, unknown>, args) => Map.prototype.get.call(target, args[0]),
  has: (target: ReadonlyMap<unknown, unknown>, args) => Map.prototype.has.call(target, args[0]),
  containsKey: (target: ReadonlyMap<unknown, unknown>, args) => Map.prototype.has.call(target, args[0]),
  isEmpty: (target: ReadonlyMap<unknown, unknown>) => target.size === 0,
  size: (target: ReadonlyMap<unknown, unknown>) => target.size,
};

const sets: Record<string, PureMethod> = {
  has: (target: ReadonlySet<unknown>, args) => Set.prototype.has.call(target, args[0]),
  contains: (target: ReadonlySet<unknown>, args) => Set.prototype.has.call(target, args[0]),
  isEmpty: (target: ReadonlySet<unknown>) => target.size === 0,
  size: (target: ReadonlySet<unknown>) => target.size,
};

const bigints: Record<string, PureMethod> = builtIns(BigInt.prototype, ['toString']);
const booleans: Record<string, PureMethod> = builtIns(Boolean.prototype, ['toString']);

const tables = [strings, numbers, bigints, booleans, arrays, dates, maps, sets];

/** Names of all methods of built-in values that an expression may call. */
export const pureMethodNames: ReadonlySet<string> = new Set(tables.flatMap((table) => Object.keys(table)));

function tableOf(target: unknown): Record<string, PureMethod> | undefined {
  switch (typeof target) {
    case 'string':
      return strings;
    case 'number':
      return numbers;
    case 'bigint':
      return bigints;
    case 'boolean':
      return booleans;
    case 'object':
      if (Array.isArray(target)) return arrays;
      if (isDate(target)) return dates;
      if (isMap(target)) return maps;
      return isSet(target) ? sets : undefined;
  }
  return undefined;
}

/** The allowed method `name` of a built-in value; `undefined` where there is none. */
export function pureMethod(target: unknown, name: string): PureMethod | undefined {
  const table = tableOf(target);
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}

const readingName = /^(?:to|get|is|has|as)[A-Z]\w*$/u;

/** Whether a method of the application's own object may be called under this name. */
export function isReadingName(name: string): boolean {
  return readingName.test(name);
}

/** Why no value has a method of this name that may be called; `undefined` if one can have it. */
export function methodRefusal(name: string): string | undefined {
  if (isReadingName(name) || pureMethodNames.has(name)) return undefined;
  return `the method "${name}" is refused: an expression may call toX, getX, isX, hasX and asX methods of objects, and those of built-in values that only read.`;
}

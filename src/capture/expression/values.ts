import { isDate, isMap, isPromise, isSet, isTypedArray } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { systemClock } from '../../ground/clock.ts';
import { type ErrorCode, SvcError } from '../../ground/errors.ts';
import { nearestNames } from '../../ground/names.ts';

/** The parts of a call that an expression can read. */
export interface ExpressionScope {
  readonly args: readonly unknown[];
  /** What the function returned or resolved to. Throws if it is not known yet. */
  readonly result: unknown;
  /** The `this` of the call. */
  readonly self: unknown;
  /** What the function threw; otherwise `undefined`. */
  readonly error?: unknown;
  /** For a value that is published in clear text: why a field must not be read. */
  readonly refuses?: ((target: unknown, field: string) => ErrorCode | undefined) | undefined;
}

type NameReader = (call: ExpressionScope) => unknown;

/** These have priority over a parameter of the same name, which stays available as `p0`, `p1`, … */
const fixedNames: ReadonlyMap<string, NameReader> = new Map<string, NameReader>([
  ['result', (call) => call.result],
  ['args', (call) => call.args],
  ['self', (call) => call.self],
  ['this', (call) => call.self],
]);

/**
 * The reader of a name in an expression; `undefined` for an unknown name.
 *
 * @param parameterNames the parameters by position, `''` for one without a name (destructured, rest); `undefined` if
 *   unknown
 */
export function nameReader(
  name: string,
  parameterNames: readonly string[] | undefined,
): NameReader | undefined {
  const fixed = fixedNames.get(name);
  if (fixed !== undefined) return fixed;
  const position = /^[pa](0|[1-9]\d?)$/u.exec(name)?.[1];
  const index = position === undefined ? (parameterNames?.lastIndexOf(name) ?? -1) : Number(position);
  if (index < 0) return name === 'error' ? (call) => call.error : undefined;
  // A declared parameter may be omitted. An argument known only by position must exist.
  if (index < (parameterNames?.length ?? 0)) return (call) => call.args[index];
  return ({ args }) => {
    if (index < args.length) return args[index];
    throw new Refusal('the call has no argument at this position.');
  };
}

/** Why a name is refused, with the valid ones. */
export function unknownName(name: string, parameterNames: readonly string[] | undefined): string {
  const named = (parameterNames ?? []).filter((parameter) => parameter !== '');
  const positions = parameterNames?.map((_, index) => `p${index}`) ?? ['p0', 'p1', '…'];
  const known = ['result', 'args', 'self', 'this', 'error', ...named, ...positions];
  // So that `p` suggests `p0`.
  const limit = name.length <= 3 ? 1 : 1 + Math.floor(name.length / 3);
  const near = nearestNames(name, known, { limit });
  const hint = near.length > 0 ? ` Did you mean ${near.join(' or ')}?` : '';
  const unknown = parameterNames === undefined ? ' The names of the parameters are unknown here.' : '';
  return `there is no name "${name}".${hint} Names: ${known.join(', ')}.${unknown}`;
}

/** Names that lead from a value to its prototype or class. Refused in the text and as computed names. */
export const forbiddenNames: ReadonlySet<string> = new Set(
  '__proto__ constructor prototype __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__'.split(
    ' ',
  ),
);

export const outOfReach = 'prototypes and classes cannot be read.';

export function refusedValue(value: unknown): Refusal {
  if (typeof value === 'function' || typeof value === 'symbol')
    return new Refusal(`the value is a ${typeof value}: functions, classes and symbols are refused.`);
  return new Refusal(
    'the value is a promise. Events are built synchronously.',
    'SVC_CAPTURE_EXPRESSION_ASYNC',
  );
}

/** Whether a value may be used. Detects only native promises: this runs for each step. */
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

/** Whether it is a primitive that becomes text quickly, without application code. */
function isPlain(value: unknown): value is string | number | bigint | boolean | null | undefined {
  if (typeof value === 'bigint') return !isTooBig(value);
  return (
    value === null || (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')
  );
}

/** `target.name`, where `name` is not forbidden. A missing property is `undefined`, as in JavaScript. */
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
  throw new Refusal(
    'its class marks this field as personal data, but this value is published in clear.',
    code,
  );
}

/** True for promises and other thenables. Their `then` is never called: a lazy one would run its query. */
export function isAwaitable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function';
}

/** Calls application code, and handles the rejection of a returned promise. */
export function callOwn(method: unknown, self: unknown, args: readonly unknown[]): unknown {
  const value: unknown = Reflect.apply(method as () => unknown, self, args);
  if (!isAwaitable(value) && isUsable(value)) return value;
  silence(value);
  throw refusedValue(value);
}

/** Handles the rejection of a promise that an evaluation created: otherwise it would end the process. */
function silence(value: unknown): void {
  if (!isPromise(value)) return;
  try {
    Promise.prototype.then.call(value, undefined, () => {});
  } catch {
    // A subclass whose constructor throws cannot be observed.
  }
}

/** The same for a property: a getter creates its promise, but a stored one is for the application to handle. */
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

/** Length of an expression's text, in UTF-16 units. */
export const maxTextLength = 1024;

/** Nesting of expressions: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
export const maxDepth = 24;

/** Names, properties, literals, operators and calls of an expression. */
export const maxParts = 256;

/** Elements that all projections and selections of one evaluation may visit. */
export const maxVisitedElements = 10_000;

/** From the first visited element. Only large lists of large values take so long. */
export const maxEvaluationMs = 1_000;

/** Elements of a list that is searched, joined or cut. Sparse arrays can be far longer than memory, and slow to traverse. */
export const maxListLength = 10_000_000;

/** Characters of a string from `+` or `join`, parts from `split`: projections could double one without limit. */
export const maxMadeLength = 1_048_576;

/** The error of an expression: one line of text around the position, and a caret below it. */
export function expressionError(
  ...[code, what, text, offset, reason]: [ErrorCode, 'refused' | 'failed', string, number, string]
): SvcError {
  const from = Math.max(0, offset - 40);
  const head = from > 0 ? '…' : '';
  const tail = offset + 30 < text.length ? '…' : '';
  // Line breaks and lone surrogates would break the two lines.
  const line = text.slice(from, offset + 30).replace(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, ' ');
  const caret = `${' '.repeat(head.length + offset - from)}^`;
  return new SvcError(
    code,
    `Expression ${what} at column ${offset + 1}: ${reason}\n  ${head}${line}${tail}\n  ${caret}`,
  );
}

/** Errors of svc. Any other error of an evaluation is the application's, and its message is not passed on. */
const own = new WeakSet<object>();

/** Marks an error of svc, which passes through an evaluation unchanged. */
export function ownFailure(failure: SvcError): SvcError {
  own.add(failure);
  return failure;
}

/** Thrown within an evaluation, which adds the position. The reason must not contain a value of the call. */
export class Refusal {
  readonly reason: string;
  readonly code: ErrorCode;

  constructor(reason: string, code: ErrorCode = 'SVC_CAPTURE_EXPRESSION') {
    this.reason = reason;
    this.code = code;
    own.add(this);
  }
}

/** The error to throw for one that reading a call threw: never the application's own, which may be a Proxy. */
export function failureOf(thrown: unknown, at: (reason: string, code: ErrorCode) => SvcError): unknown {
  if (!own.has(thrown as object))
    return at('a getter or method that it uses threw an error.', 'SVC_CAPTURE_EXPRESSION');
  return thrown instanceof Refusal ? at(thrown.reason, thrown.code) : thrown;
}

export interface Walk {
  readonly call: ExpressionScope;
  /** The reader of each name, in order of first use. */
  readonly names: readonly ((call: ExpressionScope) => unknown)[];
  /** Offset of the current step, for error messages. */
  at: number;
  /** The current element of a projection or selection, and how many more may be visited. */
  element: unknown;
  left: number;
  /** Milliseconds of the monotonic clock at its first reading. */
  startedAt: number | undefined;
}

export type Evaluate = (walk: Walk) => unknown;

type Make = (left: Evaluate, right: Evaluate, at: number) => Evaluate;

/** Applies an operator to both values; `undefined` if it is not defined for them. */
function ofBoth(apply: (left: unknown, right: unknown) => unknown): Make {
  return (left, right, at) => (walk) => {
    const first = left(walk);
    const second = right(walk);
    walk.at = at;
    return made(apply(first, second));
  };
}

function made(value: unknown): unknown {
  if (value !== undefined) return value;
  throw new Refusal('the operator does not fit these values, or its result is too large.');
}

function isNumeric(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

/** NaN and infinite numbers: no operator returns one, or a text of one. */
function isNotFinite(value: unknown): boolean {
  return typeof value === 'number' && !Number.isFinite(value);
}

/** null equals undefined; dates, numbers and bigints are compared by value, objects by identity. */
function areEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  const areDates = typeof left === 'object' && isDate(left) && isDate(right);
  if (areDates || (isNumeric(left) && isNumeric(right))) return compare(left, right) === 0;
  return (left ?? null) === (right ?? null);
}

/** Negative, 0 or positive; `undefined` if the values cannot be ordered, as NaN. */
function compare(left: unknown, right: unknown): number | undefined {
  // A subclass in the application may override `getTime`.
  if (typeof left === 'object' && isDate(left) && isDate(right))
    return compare(Date.prototype.getTime.call(left), Date.prototype.getTime.call(right));
  if ((typeof left === 'string' && typeof right === 'string') || (isNumeric(left) && isNumeric(right))) {
    if (left < right) return -1;
    if (left > right) return 1;
    return left >= right ? 0 : undefined;
  }
  return undefined;
}

function ordered(holds: (order: number) => boolean): Make {
  return ofBoth((left, right) => {
    const order = compare(left, right);
    return order === undefined ? undefined : holds(order);
  });
}

/** For two numbers or two bigints, which share their operators. */
function calculated(apply: (left: number, right: number) => number) {
  return (left: unknown, right: unknown): unknown => {
    if (typeof left === 'number' && typeof right === 'number') {
      const result = apply(left, right);
      return isNotFinite(result) ? undefined : result;
    }
    if (typeof left !== 'bigint' || typeof right !== 'bigint' || isTooBig(left) || isTooBig(right))
      return undefined;
    const result: unknown = apply(left as never, right as never);
    return isTooBig(result as bigint) ? undefined : result;
  };
}

const sum = calculated((left, right) => left + right);

/** A sum of numbers or a text; never "null", "NaN", "Infinity" or "[object Object]". */
function add(left: unknown, right: unknown): unknown {
  if (typeof left !== 'string' && typeof right !== 'string') return sum(left, right);
  for (const part of [left, right])
    if ((part ?? null) === null || !isPlain(part) || isNotFinite(part)) return undefined;
  const text = `${left}${right}`;
  return text.length > maxMadeLength ? undefined : text;
}

export function negate(operand: Evaluate, at: number): Evaluate {
  return (walk) => {
    const value = operand(walk);
    walk.at = at;
    return made(isNumeric(value) && !isNotFinite(value) ? -value : undefined);
  };
}

/**
 * By symbol and by SpEL's word, loosest first. `&&`, `||` and conditions take any value, as JavaScript does. The others
 * refuse values without a clear meaning.
 */
const levels: readonly Readonly<Record<string, Make>>[] = [
  { '??': (left, right) => (walk) => left(walk) ?? right(walk) },
  { '|| or': (left, right) => (walk) => left(walk) || right(walk) },
  { '&& and': (left, right) => (walk) => left(walk) && right(walk) },
  { '== eq': ofBoth(areEqual), '!= ne': ofBoth((left, right) => !areEqual(left, right)) },
  {
    '< lt': ordered((order) => order < 0),
    '<= le': ordered((order) => order <= 0),
    '> gt': ordered((order) => order > 0),
    '>= ge': ordered((order) => order >= 0),
  },
  { '+': ofBoth(add), '-': ofBoth(calculated((left, right) => left - right)) },
  {
    '*': ofBoth(calculated((left, right) => left * right)),
    '/ div': ofBoth(calculated((left, right) => left / right)),
    '% mod': ofBoth(calculated((left, right) => left % right)),
  },
];

/** Binary operators by their text; a higher level binds tighter. */
export const operators: ReadonlyMap<string, { readonly level: number; readonly make: Make }> = new Map(
  levels.flatMap((of, level) =>
    Object.entries(of).flatMap(([names, make]) =>
      names.split(' ').map((name) => [name, { level, make }] as const),
    ),
  ),
);

/** A method of a built-in value. Throws on invalid arguments. */
type Method = (target: never, args: readonly unknown[]) => unknown;

function wholeNumber(value: unknown): number {
  if (Number.isInteger(value)) return value as number;
  throw new TypeError('no whole number');
}

/** Plain arguments only: built-in methods would call `toString` of an object, or run a regular expression. */
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

/** Refuses a list that takes too long to traverse, as a sparse one may. */
function fair(list: List): List {
  if (list.length > maxListLength) throw new RangeError('length');
  return list;
}

/** Uses Array's own method: a subclass in the application may override it. */
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

/** Whether a method of this name may be called on some value. */
export function isCallable(name: string): boolean {
  return readingName.test(name) || pureNames.has(name);
}

/**
 * The caller of `target.name(args)` at one position of an expression. A method of the application is only judged by its
 * name, which must be that of a reading method.
 */
export function methodCaller(name: string): (target: unknown, args: readonly unknown[]) => unknown {
  const mayBePure = pureNames.has(name);
  const mayBeOwn = readingName.test(name);
  // Objects of one class share the function, so it is checked once.
  let allowed: unknown;
  return (target, args) => {
    const pure = mayBePure ? methodsOf(target)?.get(name) : undefined;
    if (pure !== undefined) return usable(pure(target as never, args));
    const method: unknown =
      mayBeOwn && typeof target === 'object' ? Reflect.get(target as object, name) : null;
    if (typeof method !== 'function' || (method !== allowed && isBuiltIn(target as object, name)))
      throw new Refusal(`the value has no method "${name}", or only one that expressions must not call.`);
    allowed = method;
    return callOwn(method, target, args);
  };
}

/** The owners of methods of the language and of Node, which objects may inherit. */
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

/** Whether the property `name`, own or inherited, belongs to the language or Node rather than the application. */
function isBuiltIn(target: object, name: string): boolean {
  owners ??= builtInOwners();
  let owner: object | null = target;
  while (owner !== null && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  return owner !== null && owners.has(owner);
}

/** Reading the clock takes as long as reading a few properties. */
const elementsBetweenLooks = 8;

export function makeList(items: readonly Evaluate[]): (walk: Walk) => unknown[] {
  return (walk) => {
    const values: unknown[] = [];
    for (const item of items) values.push(item(walk));
    return values;
  };
}

export function makeMap(of: ReadonlyMap<string, Evaluate>): Evaluate {
  const keys = [...of.keys()];
  const values = [...of.values()];
  // Copying an object with all keys is faster than adding them one by one, and never runs a setter of Object.prototype.
  const empty: Record<string, unknown> = Object.fromEntries(keys.map((key) => [key, undefined]));
  return (walk) => {
    const made = { ...empty };
    for (let index = 0; index < keys.length; index += 1)
      made[keys[index] as string] = (values[index] as Evaluate)(walk);
    return made;
  };
}

/** `list.![body]`: the list of the body's values for each element. */
export function project(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
  return (collection, walk) => {
    const values: unknown[] = [];
    visit(collection, walk, () => values.push(body(walk)));
    return values;
  };
}

/** `list.?[body]`: the elements for which the body holds; for a map, the entries, as a map. */
export function select(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
  return (collection, walk) => {
    const values: unknown[] = [];
    visit(collection, walk, (element) => {
      if (body(walk)) values.push(element);
    });
    if (!isMap(collection)) return values;
    return new Map((values as { key: unknown; value: unknown }[]).map(({ key, value }) => [key, value]));
  };
}

/** Calls `each` for each element, with `walk.element` set to it. The elements of a map are `{ key, value }`. */
function visit(collection: unknown, walk: Walk, each: (element: unknown) => void): void {
  const { at, element: outer } = walk;
  const enter = (element: unknown): void => {
    walk.at = at;
    if (walk.left === 0) throw new Refusal(`more than ${maxVisitedElements} elements were visited.`);
    walk.left -= 1;
    if (walk.left % elementsBetweenLooks === 0) lookAtClock(walk);
    walk.element = usable(element);
    each(element);
  };
  if (Array.isArray(collection) || isTypedArray(collection)) {
    const { length } = collection;
    for (let index = 0; index < length; index += 1) enter(collection[index]);
  } else if (isSet(collection)) {
    Set.prototype.forEach.call(collection, enter);
  } else if (isMap(collection)) {
    Map.prototype.forEach.call(collection, (value, key) => enter({ key, value: usable(value) }));
  } else {
    throw new Refusal('only lists, sets and maps can be iterated.');
  }
  walk.element = outer;
}

function lookAtClock(walk: Walk): void {
  const now = systemClock.monotonic();
  walk.startedAt ??= now;
  if (now - walk.startedAt > maxEvaluationMs)
    throw new Refusal(`iterating the elements took longer than ${maxEvaluationMs} ms.`);
}

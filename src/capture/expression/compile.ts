// expression/: the language of `payload`, `key` and `when`, from text to tokens to a function. It reads, and calls pure
// functions.

import { isDate, isMap, isPromise, isSet, isTypedArray } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { clock } from '../../ground/clock.ts';
import { type ErrorCode, SvcError } from '../../ground/errors.ts';
import {
  fitsOutboxText,
  headerNameProblem,
  headerText,
  headerTextForm,
  longestOutboxText,
  maxHeaders,
} from '../../ground/event-fields.ts';
import { isNamedValues, lazyPattern, nearestNames, plainObject } from '../../ground/names.ts';
import type { ExpressionScope } from '../call.ts';
import { isUsable, ownFailures } from '../wrap/wrap.ts';

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
function nameReader(name: string, parameterNames: readonly string[] | undefined): NameReader | undefined {
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

function unknownName(name: string, parameterNames: readonly string[] | undefined): string {
  const named = (parameterNames ?? []).filter((parameter) => parameter !== '');
  const positions = parameterNames?.map((_, index) => `p${index}`) ?? ['p0', 'p1', '…'];
  const known = ['result', 'args', 'self', 'this', 'error', ...named, ...positions];
  const limit = name.length <= 3 ? 1 : 1 + Math.floor(name.length / 3);
  const near = nearestNames(name, known, { limit });
  const hint = near.length > 0 ? ` Did you mean ${near.join(' or ')}?` : '';
  const unknown = parameterNames === undefined ? ' The names of the parameters are unknown here.' : '';
  return `there is no name "${name}".${hint} Names: ${known.join(', ')}.${unknown}`;
}

/** Names that lead from a value to its prototype or class. Refused in the text and as computed names. */
const forbiddenNames: ReadonlySet<string> = new Set(
  '__proto__ constructor prototype __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__'.split(
    ' ',
  ),
);

const outOfReach = 'prototypes and classes cannot be read.';

function refusedValue(value: unknown): Refusal {
  if (typeof value === 'function' || typeof value === 'symbol')
    return new Refusal(`the value is a ${typeof value}: functions, classes and symbols are refused.`);
  return new Refusal(
    'the value is a promise. Events are built synchronously.',
    'SVC_CAPTURE_EXPRESSION_ASYNC',
  );
}

function usable(value: unknown): unknown {
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
function readProperty(target: unknown, name: string, call: ExpressionScope): unknown {
  checkOpen(target, name, call);
  const value = (target as Record<string, unknown>)[name];
  if (isUsable(value)) return value;
  silenceIfMadeByGetter(target, name, value);
  throw refusedValue(value);
}

/** `target[key]`: an element of an array or a string, an entry of a map, a property of an object. */
function readIndex(target: unknown, key: unknown, call: ExpressionScope): unknown {
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
function isAwaitable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function';
}

/** Calls application code, and handles the rejection of a returned promise. */
function callOwn(method: unknown, self: unknown, args: readonly unknown[]): unknown {
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
const maxTextLength = 1024;

/** Nesting of expressions: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
const maxDepth = 24;

/** Names, properties, literals, operators and calls of an expression. */
const maxParts = 256;

/** Elements that all projections and selections of one evaluation may visit. */
const maxVisitedElements = 10_000;

/** From the first visited element. Only large lists of large values take so long. */
const maxEvaluationMs = 1_000;

/** Elements of a list that is searched, joined or cut. Sparse arrays can be far longer than memory. */
const maxListLength = 10_000_000;

/** Characters of a string from `+` or `join`, parts from `split`: projections could double one without limit. */
const maxMadeLength = 1_048_576;

const breaking = lazyPattern(String.raw`[\p{Cc}\p{Cs}\u2028\u2029]`, 'gu');

/** The error of an expression: one line of text around the position, and a caret below it. */
function expressionError(
  ...[code, what, text, offset, reason]: [ErrorCode, 'refused' | 'failed', string, number, string]
): SvcError {
  const from = Math.max(0, offset - 40);
  const head = from > 0 ? '…' : '';
  const tail = offset + 30 < text.length ? '…' : '';
  // Line breaks and lone surrogates would break the two lines.
  const line = text.slice(from, offset + 30).replace(breaking(), ' ');
  const caret = `${' '.repeat(head.length + offset - from)}^`;
  return new SvcError(
    code,
    `Expression ${what} at column ${offset + 1}: ${reason}\n  ${head}${line}${tail}\n  ${caret}`,
  );
}

/** Thrown within an evaluation, which adds the position. The reason must not contain a value of the call. */
class Refusal {
  readonly reason: string;
  readonly code: ErrorCode;

  constructor(reason: string, code: ErrorCode = 'SVC_CAPTURE_EXPRESSION') {
    this.reason = reason;
    this.code = code;
    ownFailures.add(this);
  }
}

/** The error to throw for one that reading a call threw: never the application's own, which may be a Proxy. */
function failureOf(thrown: unknown, at: (reason: string, code: ErrorCode) => SvcError): unknown {
  if (!ownFailures.has(thrown as object))
    return at('a getter or method that it uses threw an error.', 'SVC_CAPTURE_EXPRESSION');
  return thrown instanceof Refusal ? at(thrown.reason, thrown.code) : thrown;
}

interface Walk {
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

type Evaluate = (walk: Walk) => unknown;

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

function negate(operand: Evaluate, at: number): Evaluate {
  return (walk) => {
    const value = operand(walk);
    walk.at = at;
    return made(isNumeric(value) && !isNotFinite(value) ? -value : undefined);
  };
}

/** By symbol and by SpEL's word, loosest first. `&&`, `||` and conditions take any value; the others need a clear meaning. */
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

const operators: ReadonlyMap<string, { readonly level: number; readonly make: Make }> = new Map(
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
  const max = limit === undefined ? maxMadeLength + 1 : wholeNumber(limit) >>> 0;
  const parts = target.split(separator, Math.min(max, maxMadeLength + 1));
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
function isCallable(name: string): boolean {
  return readingName.test(name) || pureNames.has(name);
}

/** Calls `target.name(args)` at one position of an expression. Methods of the application must be named as reading ones. */
function methodCaller(name: string): (target: unknown, args: readonly unknown[]) => unknown {
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

function makeList(items: readonly Evaluate[]): (walk: Walk) => unknown[] {
  return (walk) => {
    const values: unknown[] = [];
    for (const item of items) values.push(item(walk));
    return values;
  };
}

function makeMap(of: ReadonlyMap<string, Evaluate>): Evaluate {
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
function project(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
  return (collection, walk) => {
    const values: unknown[] = [];
    visit(collection, walk, () => values.push(body(walk)));
    return values;
  };
}

/** `list.?[body]`: the elements for which the body holds; for a map, the entries, as a map. */
function select(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
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
  const now = clock.monotonic();
  walk.startedAt ??= now;
  if (now - walk.startedAt > maxEvaluationMs)
    throw new Refusal(`iterating the elements took longer than ${maxEvaluationMs} ms.`);
}

/** A parsed expression of the read-only language that `docs/expressions.md` describes. */
interface Expression {
  readonly text: string;
  readonly variables: readonly string[];
  /**
   * Compiles the expression for one function.
   *
   * @param parameterNames the function's parameters by position, `''` for one without a name (destructured, rest).
   *   `undefined` if unknown: then only `result`, `args`, `self`, `error`, `p0`, `a0`, … are valid names
   * @returns the evaluation of the expression for a call; `undefined` for a missing property. It throws `SvcError`
   *   `SVC_CAPTURE_EXPRESSION`, or `SVC_CAPTURE_EXPRESSION_ASYNC` for a promise. The message contains the text of the
   *   expression and the position, never a value of the call or the message of the application's own error
   * @throws SvcError `SVC_CAPTURE_EXPRESSION_NAME` for a name that this function does not have
   */
  bind(parameterNames: readonly string[] | undefined): (call: ExpressionScope) => unknown;
}

/**
 * Parses an expression. Refuses everything that does more than read.
 *
 * @throws SvcError `SVC_CAPTURE_EXPRESSION_SYNTAX`, with the column and the reason
 */
export function parseExpression(text: string): Expression {
  if (text.length > maxTextLength) {
    const reason = `it is longer than ${maxTextLength} characters.`;
    throw expressionError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'refused', text, maxTextLength, reason);
  }
  const parser = new Parser(text);
  const evaluate = parser.parse();
  const { names } = parser;

  return {
    text,
    variables: [...names.keys()],
    bind(parameterNames) {
      const readers = Array.from(names, ([name, offset]) => {
        const reader = nameReader(name, parameterNames);
        if (reader !== undefined) return reader;
        const reason = unknownName(name, parameterNames);
        throw expressionError('SVC_CAPTURE_EXPRESSION_NAME', 'refused', text, offset, reason);
      });
      return (call) => {
        const left = maxVisitedElements;
        const walk: Walk = { call, names: readers, at: 0, element: undefined, left, startedAt: undefined };
        try {
          const value = evaluate(walk);
          walk.at = 0;
          if (isAwaitable(value)) throw refusedValue(value);
          return value;
        } catch (error) {
          throw failureOf(error, (reason, code) => expressionError(code, 'failed', text, walk.at, reason));
        }
      };
    },
  };
}

/** A function in place of an expression. It gets the arguments, the result, `this` and the error of the call. */
export type Selector = (scope: ExpressionScope) => unknown;

type Spec = string | Selector;

/**
 * Compiles the expressions and functions of a target for one function.
 *
 * @param parameterNames as for {@link parseExpression}
 * @throws SvcError for an expression, an index or a header name that does not fit. The returned functions throw
 *   `SvcError` if the call lacks the value (`SVC_CAPTURE_EXPRESSION`, `SVC_CAPTURE_EXPRESSION_ASYNC`,
 *   `SVC_CAPTURE_PAYLOAD_INDEX`, `SVC_CAPTURE_HEADERS`, `SVC_OUTBOX_AGGREGATE_ID`)
 */
export function compileSelectors(
  fields: {
    readonly payload?: Spec | undefined;
    /** -1 (default): the result; 0, 1, …: that argument. Ignored if there is a `payload`. */
    readonly payloadIndex?: number | undefined;
    readonly when?: Spec | undefined;
    readonly key?: Spec | undefined;
    readonly outbox?: { readonly aggregateId: Spec } | undefined;
    readonly headers?: Readonly<Record<string, Spec>> | undefined;
  },
  parameterNames: readonly string[] | undefined,
) {
  const { when, key, outbox, headers } = fields;
  return {
    payload: payloadSelector(fields, parameterNames),
    aggregateId: outbox && aggregateIdSelector(outbox.aggregateId, parameterNames),
    when: when === undefined ? undefined : whenSelector(when, parameterNames),
    key: key === undefined ? undefined : keySelector(key, parameterNames),
    headers: headers && headerSelector(headers, parameterNames),
  };
}

function payloadSelector(
  { payload, payloadIndex = -1 }: Parameters<typeof compileSelectors>[0],
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  if (payload !== undefined) {
    const select = selector(payload, 'payload', parameterNames);
    return (call) => {
      const value = select(call);
      // Instead of an empty event.
      if (value !== undefined) return value;
      throw new SvcError('SVC_CAPTURE_EXPRESSION', 'the payload expression returned nothing');
    };
  }
  if (!Number.isInteger(payloadIndex) || payloadIndex < -1) {
    throw new SvcError(
      'SVC_CAPTURE_PAYLOAD_INDEX',
      'payloadIndex must be -1 (the result) or the position of an argument.',
    );
  }
  const what = payloadIndex === -1 ? 'The result' : `Argument ${payloadIndex}`;
  return (call) => {
    if (payloadIndex >= call.args.length) {
      const given = `payloadIndex is ${payloadIndex}, but the call has ${call.args.length} arguments.`;
      throw new SvcError('SVC_CAPTURE_PAYLOAD_INDEX', given);
    }
    return guarded(what, () => usable(payloadIndex === -1 ? call.result : call.args[payloadIndex]));
  };
}

/**
 * Selects the record key of a call: the text of a string, number, bigint or boolean. Anything else fails with
 * `SVC_CAPTURE_EXPRESSION`, including null and undefined.
 */
function keySelector(
  spec: Spec,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => string {
  const select = selector(spec, 'key', parameterNames);
  return (call) => {
    const { text, found } = asText(select(call));
    if (text !== undefined) return text;
    const says = `${placeOf(spec, 'key')} gave ${found}; a key is a string, a number or a boolean.`;
    throw new SvcError('SVC_CAPTURE_EXPRESSION', says);
  };
}

/**
 * Selects the aggregate id of a call, as {@link keySelector} does the key. An empty or missing id fails with
 * `SVC_OUTBOX_AGGREGATE_ID`: its events would have no order.
 */
function aggregateIdSelector(
  spec: Spec,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => string {
  const select = selector(spec, 'aggregateId', parameterNames);
  return (call) => {
    const { text, found } = asText(select(call));
    if (text !== undefined && text !== '' && fitsOutboxText(text)) return text;
    const other = text === '' ? 'an empty text' : `more than ${longestOutboxText} bytes`;
    const says = `${placeOf(spec, 'aggregateId')} gave ${found ?? other}; the id of an aggregate is a non-empty string, a number or a boolean.`;
    throw new SvcError('SVC_OUTBOX_AGGREGATE_ID', says);
  };
}

/** Selects the headers of a call, as texts; null and undefined are left out. */
function headerSelector(
  spec: Readonly<Record<string, Spec>>,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => Readonly<Record<string, string>> {
  if (!isNamedValues(spec)) throw headersError(`headers must be ${plainObject}`);
  const entries = Object.entries(spec);
  if (entries.length > maxHeaders) throw headersError(`there can be at most ${maxHeaders} headers`);
  const selectors = entries.map(([name, given], index) => {
    const problem = headerNameProblem(name);
    if (problem !== undefined) throw headersError(`header ${index + 1} ${problem}`);
    return { name, select: selector(given, `${name} header`, parameterNames) };
  });
  return (call) => {
    const headers: Record<string, string> = {};
    for (const { name, select } of selectors) {
      const text = headerText(select(call));
      if (text === undefined) throw headersError(`the header ${name} must be ${headerTextForm}`);
      if (text !== null) headers[name] = text;
    }
    return headers;
  };
}

function headersError(message: string): SvcError {
  return new SvcError('SVC_CAPTURE_HEADERS', message);
}

function placeOf(spec: Spec, name: string): string {
  return typeof spec === 'string' ? `The ${name} expression "${spec}"` : `The ${name} function`;
}

function asText(value: unknown): { readonly text?: string; readonly found?: string } {
  const type = typeof value;
  if (type === 'string') return { text: value as string };
  if ((type === 'bigint' && !isTooBig(value as bigint)) || type === 'boolean' || Number.isFinite(value))
    return { text: String(value) };
  if (value === null || value === undefined) return { found: String(value) };
  return { found: type === 'object' ? 'an object' : 'no number' };
}

/** Whether a call makes an event, by JavaScript's rules for conditions. A promise fails. */
function whenSelector(
  spec: Spec,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => boolean {
  const select = selector(spec, 'when', parameterNames);
  return (call) => Boolean(select(call));
}

function selector(
  spec: Spec,
  name: string,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  if (typeof spec === 'string') return parseExpression(spec).bind(parameterNames);
  return (call) => {
    let refusal: unknown;
    // Only the documented fields of the call.
    const scope: ExpressionScope = {
      args: call.args,
      get result() {
        try {
          return call.result;
        } catch (reason) {
          refusal = reason;
          throw reason;
        }
      },
      self: call.self,
      error: call.error,
    };
    try {
      const value = guarded(`The ${name} function`, () => callOwn(spec, undefined, [scope]));
      if (refusal === undefined) return value;
    } catch (error) {
      if (refusal === undefined) throw error;
    }
    // Even if the function caught it.
    throw refusal;
  };
}

function guarded<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw failureOf(error, (reason, code) => new SvcError(code, `${what} failed: ${reason}`));
  }
}

const literals: ReadonlyMap<string, boolean | null> = new Map([
  ['null', null],
  ['true', true],
  ['false', false],
]);

type Step = (value: unknown, walk: Walk) => unknown;

/** Parses a text once, from left to right, into closures. Never evaluates code from a string. */
class Parser {
  /** The names that the call must define, with the offset of their first use. */
  readonly names: Map<string, number> = new Map();
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #position = 0;
  #depth = -1;
  #parts = 0;
  /** Whether a projection or selection surrounds the position. */
  #hasElement = false;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = tokenize(text);
  }

  /** @throws SvcError `SVC_CAPTURE_EXPRESSION_SYNTAX` */
  parse(): Evaluate {
    const evaluate = this.#expression();
    if (this.#next.kind !== 'end') throw this.#unexpected(this.#next);
    return evaluate;
  }

  get #next(): Token {
    return this.#tokens[this.#position] as Token;
  }

  /** Does not move past the last token, `end`. */
  #take(): Token {
    const token = this.#next;
    if (token.kind !== 'end') this.#position += 1;
    return token;
  }

  #isNext(symbol: string, ahead = 0): boolean {
    const token = this.#tokens[this.#position + ahead];
    return token?.kind === 'symbol' && token.text === symbol;
  }

  #accept(symbol: string): boolean {
    const isNext = this.#isNext(symbol);
    if (isNext) this.#position += 1;
    return isNext;
  }

  #expect(symbol: string): void {
    if (this.#accept(symbol)) return;
    throw this.#unexpected(this.#next, `"${symbol}" is missing`);
  }

  #refuse({ at }: { readonly at: number }, reason: string): SvcError {
    return expressionError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'refused', this.#text, at, reason);
  }

  #unexpected(token: Token, missing?: string): SvcError {
    return this.#refuse(token, reasonAgainst(token, missing));
  }

  #refuseForbidden(token: Token): void {
    if (forbiddenNames.has(token.text))
      throw this.#refuse(token, `"${token.text}" is refused: ${outOfReach}`);
  }

  #part(at: number, evaluate: Evaluate): Evaluate {
    this.#parts += 1;
    if (this.#parts > maxParts) throw this.#refuse({ at }, `it has more than ${maxParts} parts.`);
    return evaluate;
  }

  #nested(read: () => Evaluate): Evaluate {
    this.#depth += 1;
    if (this.#depth > maxDepth)
      throw this.#refuse(this.#next, `it is nested deeper than ${maxDepth} levels.`);
    const evaluate = read();
    this.#depth -= 1;
    return evaluate;
  }

  /** `c ? a : b` and `a ?: b`, right to left. */
  #expression(): Evaluate {
    return this.#nested(() => {
      const test = this.#binary(0);
      const { at } = this.#next;
      if (this.#accept('?:')) {
        const other = this.#expression();
        return this.#part(at, (walk) => {
          const value = test(walk);
          return value === null || value === undefined || value === '' ? other(walk) : value;
        });
      }
      if (!this.#accept('?')) return test;
      const yes = this.#expression();
      this.#expect(':');
      const no = this.#expression();
      return this.#part(at, (walk) => (test(walk) ? yes(walk) : no(walk)));
    });
  }

  #binary(lowest: number): Evaluate {
    let left = this.#unary();
    for (;;) {
      const { kind, text, at } = this.#next;
      const operator = kind === 'symbol' || kind === 'name' ? operators.get(text) : undefined;
      if (operator === undefined || operator.level < lowest) return left;
      this.#take();
      left = this.#part(at, operator.make(left, this.#binary(operator.level + 1), at));
    }
  }

  #unary(): Evaluate {
    const { kind, text, at } = this.#next;
    const isNot = (kind === 'symbol' && text === '!') || (kind === 'name' && text === 'not');
    if (!isNot && !this.#isNext('-')) return this.#accesses();
    this.#take();
    const operand = this.#nested(() => this.#unary());
    return this.#part(at, isNot ? (walk) => !operand(walk) : negate(operand, at));
  }

  /** `.name`, `.method(…)`, `[…]`, `.![…]`, `.?[…]`, each also with `?.` before it. */
  #accesses(): Evaluate {
    let target = this.#primary();
    for (;;) {
      const { at } = this.#next;
      if (this.#accept('[')) target = this.#index(target, at, false);
      else if (this.#accept('.')) target = this.#afterDot(target, at, false);
      else if (this.#accept('?.')) target = this.#afterDot(target, at, true);
      else return target;
    }
  }

  #afterDot(target: Evaluate, dot: number, safe: boolean): Evaluate {
    if (safe && this.#accept('[')) return this.#index(target, dot, true);
    const token = this.#take();
    const { kind, text, at } = token;
    // `$` is a name elsewhere; here it is SpEL's selection of the last element.
    if (kind === 'name' && !(text === '$' && this.#isNext('['))) {
      this.#refuseForbidden(token);
      if (!this.#accept('(')) return this.#access(target, at, safe, propertyOf(text));
      if (!isCallable(text)) {
        const may = 'toX, getX, isX, hasX and asX of objects, and those of built-in values that only read';
        throw this.#refuse(token, `the method "${text}" is refused: an expression calls ${may}.`);
      }
      const args = this.#list(')');
      const invoke = methodCaller(text);
      return this.#access(target, at, safe, (value, walk) => {
        const values = args(walk);
        walk.at = at;
        return invoke(value, values);
      });
    }
    if (kind === 'symbol' && (text === '!' || text === '?') && this.#accept('[')) {
      const outer = this.#hasElement;
      this.#hasElement = true;
      const body = this.#expression();
      this.#hasElement = outer;
      this.#expect(']');
      return this.#access(target, dot, safe, text === '!' ? project(body) : select(body));
    }
    throw this.#unexpected(token);
  }

  /** `?.` covers only its own step, as in SpEL: later steps continue with null. */
  #access(target: Evaluate, at: number, safe: boolean, step: Step): Evaluate {
    return this.#part(at, (walk) => {
      const value = target(walk);
      walk.at = at;
      if (value !== null && value !== undefined) return step(value, walk);
      if (safe) return null;
      throw new Refusal(`the value before it is ${value}. Write "?." where it may be missing.`);
    });
  }

  #index(target: Evaluate, at: number, safe: boolean): Evaluate {
    const from = this.#position;
    const key = this.#expression();
    const read = this.#tokens.slice(from, this.#position);
    const [token, ...others] = read.filter(({ kind, text }) => kind !== 'symbol' || !/^[()]$/.test(text));
    if (token !== undefined && others.length === 0) {
      const { kind, text } = token;
      if (kind === 'string') this.#refuseForbidden(token);
      if (kind === 'number' ? !Number.isInteger(Number(text)) : kind === 'name' && literals.has(text))
        throw this.#refuse(token, 'an index is a whole number or a string.');
    }
    this.#expect(']');
    return this.#access(target, at, safe, (value, walk) => {
      const name = key(walk);
      walk.at = at;
      return readIndex(value, name, walk.call);
    });
  }

  #list(close: string): (walk: Walk) => unknown[] {
    const items: Evaluate[] = [];
    if (!this.#accept(close)) {
      do items.push(this.#expression());
      while (this.#accept(','));
      this.#expect(close);
    }
    return makeList(items);
  }

  #primary(): Evaluate {
    const token = this.#take();
    const { kind, at, text } = token;
    if (kind === 'string') return this.#part(at, () => text);
    if (kind === 'number') return this.#number(token);
    if (kind === 'variable' || kind === 'name') return this.#name(token);
    if (kind === 'symbol' && text === '{') return this.#part(at, this.#braces());
    if (kind !== 'symbol' || text !== '(') throw this.#unexpected(token);
    const inner = this.#expression();
    this.#expect(')');
    return inner;
  }

  #number(token: Token): Evaluate {
    const value = Number(token.text);
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))
      throw this.#refuse(token, 'this number is too large to be exact.');
    const after = this.#next;
    if (after.kind === 'name' && after.at === token.at + token.text.length) throw this.#unexpected(after);
    return this.#part(token.at, () => value);
  }

  /** Inside a projection or selection, `this` is the element, and a name without `#` one of its properties. */
  #name(token: Token): Evaluate {
    const { kind, text, at } = token;
    if ((kind === 'name' && text === 'new') || this.#isNext('('))
      throw this.#refuse(token, `"${text}" is refused: there are no functions, type references or "new".`);
    const literal = kind === 'name' ? literals.get(text) : undefined;
    if (literal !== undefined) return this.#part(at, () => literal);
    this.#refuseForbidden(token);
    if (this.#hasElement && (kind === 'name' || text === 'this')) {
      const element = this.#part(at, (walk) => walk.element);
      return text === 'this' ? element : this.#access(element, at, false, propertyOf(text));
    }
    if (!this.names.has(text)) this.names.set(text, at);
    const index = [...this.names.keys()].indexOf(text);
    return this.#part(at, (walk) => {
      walk.at = at;
      return usable((walk.names[index] as Walk['names'][number])(walk.call));
    });
  }

  /** After `{`: a map `{a: 1, 'b': 2}`, the empty map `{:}`, or a list `{1, 2}`, `{}`. */
  #braces(): Evaluate {
    const values = new Map<string, Evaluate>();
    if (this.#accept(':')) this.#expect('}');
    else if (this.#isNext('}') || !this.#isNext(':', 1)) return this.#list('}');
    else {
      do {
        const key = this.#key(values);
        this.#expect(':');
        values.set(key, this.#expression());
      } while (this.#accept(','));
      this.#expect('}');
    }
    return makeMap(values);
  }

  #key(before: ReadonlyMap<string, Evaluate>): string {
    const token = this.#take();
    if (token.kind !== 'name' && token.kind !== 'string' && token.kind !== 'number')
      throw this.#unexpected(token);
    this.#refuseForbidden(token);
    if (before.has(token.text)) throw this.#refuse(token, `the key "${token.text}" occurs twice.`);
    return token.text;
  }
}

function propertyOf(name: string): Step {
  return (value, walk) => readProperty(value, name, walk.call);
}

/** A `symbol` may be a character outside the grammar: the parser reports why it is refused. */
export interface Token {
  readonly kind: 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'end';
  /** The name without `#`, the content of a string, the digits of a number, the symbol. */
  readonly text: string;
  readonly at: number;
}

const name = String.raw`([\p{ID_Start}$_][\p{ID_Continue}$]*)`;

/** In the order of the groups. In strings, as in SpEL, a doubled quote is one quote, and a backslash an ordinary character. */
const kinds = ['name', 'variable', 'number', 'string', 'string', 'symbol'] as const;
const pattern = lazyPattern(
  [
    String.raw`[\s\u200b\ufeff]+|${name}|#${name}|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`,
    `'((?:[^']|'')*)'(?!')|"((?:[^"]|"")*)"(?!")`,
    String.raw`(===|!==|=>|\?\.|\?:|\?\?|&&|\|\||\*\*|\+\+|--|[=!<>+\-*/%]=|.)`,
  ].join('|'),
  'gsu',
);

export function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const found of text.matchAll(pattern())) {
    const group = found.findIndex((part, index) => index > 0 && part !== undefined);
    const kind = kinds[group - 1];
    if (kind === undefined) continue;
    const part = found[group] as string;
    const quote = found[0].charAt(0);
    const content = kind === 'string' ? part.replaceAll(quote + quote, quote) : part;
    tokens.push({ kind, text: content, at: found.index });
  }
  tokens.push({ kind: 'end', text: '', at: text.length });
  return tokens;
}

/** Replacements to suggest for unexpected symbols. */
const instead: ReadonlyMap<string, string> = new Map([
  ['=', '== to compare, assignment does not exist'],
  ['===', '=='],
  ['!==', '!='],
  ['&', '&&'],
  ['|', '||'],
  ['--', '- -'],
  ["'", "both quotes of '…'"],
  ['"', 'both quotes of "…"'],
  ['`', "'…'"],
  ['#', 'a name behind it, as in #result, and no #{…} around an expression'],
  ['=>', 'a function instead of the expression, if the configuration is code'],
  ['between', 'a >= 1 && a <= 9'],
  ['in', 'list.includes(value)'],
]);

function reasonAgainst({ kind, text }: Token, missing: string | undefined): string {
  const other = kind === 'symbol' || kind === 'name' ? instead.get(text) : undefined;
  const hint = other === undefined ? (missing ?? 'expressions only read') : `write ${other}`;
  const found = `"${kind === 'variable' ? '#' : ''}${text}" is not expected here`;
  return `${kind === 'end' ? 'it is incomplete' : found}: ${hint}.`;
}

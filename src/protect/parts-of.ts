import { types } from 'node:util';
import { type Budget, maxNodes, textOfBigInt, tooLarge } from './budget.ts';
import { hasToJson } from './kind.ts';
import { type ClassMarks, marksOf } from './marks/class-marks.ts';
import { isRefusal, refusal } from './refusal.ts';

/** What could be copied out of an object. */
export interface Contents {
  /** Values, keys of maps, what its `toJSON` returns, and forms that its text may have. */
  readonly parts: readonly unknown[];
  /** Values inside an object whose own `toJSON` says what it is. */
  readonly inner: readonly unknown[];
  /** False: it may hold a text that is in neither, such as that of a private field. */
  readonly isWhole: boolean;
}

/** Longer binary data is not searched for as text. */
const mostSearchedBytes = 65_536;
const nothingKnown: Contents = { parts: [], inner: [], isWhole: false };

/** Whatever could be copied out of an object. What cannot be read there is not whole. */
export function contentsOf(value: object, budget: Budget): Contents {
  const contents = attempt(() => readContents(value, budget)) ?? nothingKnown;
  budget.spend(contents.parts.length + contents.inner.length + 1);
  return contents;
}

function readContents(value: object, budget: Budget): Contents {
  const own = ownParts(value, budget);
  if (!hasToJson(value)) return own;
  const said = attempt(() => value.toJSON(''));
  if (said === value) return own;
  if (types.isDate(value)) return { ...own, parts: [...own.parts, said] };
  // Its internals are of no class that anybody is asked to describe.
  const { parts: inner } = own;
  const isWhole = !isOpaqueHeir(value);
  if (typeof said === 'object' && said !== null)
    return { parts: [said], inner, isWhole: isWhole && Object.keys(said).length > 0 };
  if (said === undefined || said === null || typeof said === 'boolean' || isRedacted(said))
    return { ...own, isWhole: false };
  const shown = shownBy(value);
  return { parts: [said, ...shown.filter(isTextual)], inner: [...inner, ...shown.filter(isObject)], isWhole };
}

/** A text that stands for another one, which methods of the object may give. */
function isRedacted(said: unknown): boolean {
  return typeof said === 'string' && redacted.test(said);
}
const redacted = /^\W*$|\*\*|[•█]|\b(?:redacted|hidden|masked|secret|n\/a)\b/i;

function ownParts(value: object, budget: Budget): Contents {
  const prototype = Object.getPrototypeOf(value) as object | null;
  const isKnown = isDataClass(prototype);
  const whole = (parts: readonly unknown[], isWhole = isKnown): Contents => ({ parts, inner: [], isWhole });
  if (types.isMap(value)) {
    const keys = listOfSet(value.keys(), budget);
    return whole([...keys, ...listOfSet(value.values(), budget), ...propertiesOf(value)]);
  }
  if (types.isSet(value)) return whole([...listOfSet(value, budget), ...propertiesOf(value)]);
  if (types.isDate(value)) return whole([...formsOfDate(value), ...propertiesOf(value)]);
  if (types.isStringObject(value) || types.isNumberObject(value) || types.isBigIntObject(value))
    return whole([value.valueOf()], !isOpaqueHeir(value));
  if (types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) {
    const contents = binary(value);
    return { ...contents, isWhole: contents.isWhole && !isOpaqueHeir(value) };
  }
  const count = Array.isArray(value) ? value.length : countKeys(value, budget.left);
  if (count > budget.left) throw tooLarge();
  const parts = propertiesOf(value);
  if (Array.isArray(value)) parts.push(...textsOfList(parts));
  // A proxy can give what it does not name.
  if (types.isProxy(value)) return whole(parts, false);
  // Plain objects and lists may be empty; an instance without fields has its text elsewhere.
  const isInstance = prototype !== null && prototype !== Object.prototype && !Array.isArray(value);
  return whole(parts, isKnown && (parts.length > 0 || !isInstance));
}

export interface HoldingRules {
  readonly budget: Budget;
  /** Objects of other classes that lead to no marks, such as the connection of a model. They are not searched again. */
  readonly withoutMarks: WeakSet<object>;
}

/** So many objects of classes without `toJSON` are searched from one object, with what they hold. */
const mostOthers = 500;
const objectsBetweenLooks = 128;
/** From so many values on, a list without objects is remembered: each object that holds it would read it again. */
const many = 64;

/**
 * The objects of marked classes that an object holds in its enumerable properties, at any depth: through plain objects, lists, maps,
 * sets and whatever has a `toJSON`; and, as models hold half of their library, through a bounded number of others. What is too
 * large to be published is not looked through.
 */
export function heldMarked(
  root: object,
  { budget, withoutMarks }: HoldingRules,
): readonly (readonly [object, ClassMarks])[] {
  const found: (readonly [object, ClassMarks])[] = [];
  const seen = new Set([root]);
  const others = new Set<object>();
  const waiting: object[] = [root];
  let leadsToNone = true;
  for (let at = 0; at < waiting.length; at++) {
    if (at % objectsBetweenLooks === objectsBetweenLooks - 1) budget.look();
    const object = waiting[at] as object;
    const isOther = others.has(object);
    const values = attempt(() => enumerableValues(object, isOther)) ?? [];
    let hasObjects = false;
    for (const value of values) {
      if (typeof value !== 'object' || value === null) continue;
      hasObjects = true;
      if (seen.has(value) || waiting.length === maxNodes) continue;
      seen.add(value);
      const prototype = attempt(() => Object.getPrototypeOf(value) as object | null) ?? null;
      const marks = marksOf(prototype);
      if (marks !== null) {
        found.push([value, marks]);
        if (isOther) leadsToNone = false;
      }
      if (types.isDate(value) || types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) continue;
      const isNextOther = isOther || !(plainPrototypes.has(prototype) || marks !== null || isTold(value));
      if (withoutMarks.has(value) || (isNextOther && others.size === mostOthers)) continue;
      if (isNextOther) others.add(value);
      waiting.push(value);
    }
    if (!hasObjects && values.length > many) withoutMarks.add(object);
  }
  // A look that ends early says nothing of what is plain, and could be reached in another way.
  if (leadsToNone) for (const other of others) if (!isPlain(other)) withoutMarks.add(other);
  return found;
}

const isPlain = (value: object): boolean =>
  plainPrototypes.has(attempt(() => Object.getPrototypeOf(value) as object | null) ?? null) || isTold(value);

function isTold(value: object): boolean {
  return (
    attempt(() => Array.isArray(value) || types.isMap(value) || types.isSet(value) || hasToJson(value)) ??
    false
  );
}

/** `asStored`: getters are not asked, as those of other libraries may do more than tell. */
function enumerableValues(object: object, asStored: boolean): readonly unknown[] {
  if (Array.isArray(object)) return object.length > maxNodes ? [] : Array.from(object);
  if (types.isMap(object)) return [...firstOf(object.keys()), ...firstOf(object.values())];
  if (types.isSet(object)) return firstOf(object);
  if (countKeys(object, maxNodes) > maxNodes) return [];
  if (!asStored) return Object.keys(object).map((key) => attempt(() => Reflect.get(object, key)));
  return Object.keys(object).map((key) => Object.getOwnPropertyDescriptor(object, key)?.value as unknown);
}

/** The iterator of a class may never end. */
function firstOf(values: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  for (const value of values) {
    if (first.length === maxNodes) break;
    first.push(value);
  }
  return first;
}

/** Of all own properties, those that JSON leaves out among them. */
function propertiesOf(value: object): unknown[] {
  const parts: unknown[] = [];
  for (const key of Reflect.ownKeys(value)) {
    if (key === 'length' && Array.isArray(value)) continue;
    parts.push(attempt(() => Reflect.get(value, key)));
  }
  return parts;
}

/** Numbers, days, and what a date is usually written as: in text, its milliseconds are many digits and found as such. */
export function formsOfDate(date: Date): readonly unknown[] {
  const milliseconds = Date.prototype.getTime.call(date);
  if (Number.isNaN(milliseconds)) return [];
  const iso = Date.prototype.toISOString.call(date);
  const { toUTCString, toDateString } = Date.prototype;
  const day = iso.slice(0, 10);
  const local = [
    ...[Date.prototype.getFullYear.call(date), Date.prototype.getMonth.call(date) + 1],
    Date.prototype.getDate.call(date),
  ];
  return [
    ...[iso, `${iso.slice(0, 19)}Z`, iso.slice(0, 19), `${day} ${iso.slice(11, 19)}`],
    ...[milliseconds, Math.floor(milliseconds / 1_000)],
    ...[String(date), toUTCString.call(date), toDateString.call(date)],
    ...formsOfDay(day.split('-').map(Number)),
    ...formsOfDay(local),
  ];
}

function formsOfDay([year = 0, month = 0, day = 0]: readonly number[]): readonly string[] {
  const [mm, dd] = [String(month).padStart(2, '0'), String(day).padStart(2, '0')];
  return [
    ...[`${year}-${mm}-${dd}`, `${year}${mm}${dd}`, `${year}/${mm}/${dd}`, `${dd}.${mm}.${year}`],
    ...[`${day}.${month}.${year}`, `${month}/${day}/${year}`, `${mm}/${dd}/${year}`],
    ...[`${day}/${month}/${year}`, `${dd}/${mm}/${year}`],
  ];
}

/** Of the class of a value without parts: it may keep a text beside it. */
function isOpaqueHeir(value: object): boolean {
  const isBuiltIn =
    types.isBoxedPrimitive(value) || types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value);
  if (!isBuiltIn && !(value instanceof URL)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  const owner = prototype && (Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown);
  if (prototype === Buffer.prototype || owner === URL) return false;
  return typeof owner !== 'function' || !builtInSource.test(Function.prototype.toString.call(owner));
}
const builtInSource = /\[native code\]/;

/** What a list of characters, or of their numbers, says. */
export function textsOfList(list: readonly unknown[]): readonly string[] {
  if (list.length < 2 || list.length > mostSearchedBytes) return [];
  if (list.every((each) => typeof each === 'string' && each.length <= 2)) return [list.join('')];
  if (!list.every((each) => Number.isInteger(each) && (each as number) >= 0 && (each as number) <= 0x10_ffff))
    return [];
  const text = list.map((each) => String.fromCodePoint(each as number)).join('');
  return (list as number[]).every((each) => each < 256)
    ? [list.join(), text, Buffer.from(list as number[]).toString()]
    : [list.join(), text];
}

function binary(value: ArrayBufferLike | ArrayBufferView): Contents {
  const isOfBytes = !ArrayBuffer.isView(value) || types.isUint8Array(value) || value instanceof DataView;
  if (!isOfBytes || value.byteLength > mostSearchedBytes) return nothingKnown;
  const bytes = ArrayBuffer.isView(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : Buffer.from(value);
  const encodings = ['base64', 'base64url', 'hex', 'utf8', 'latin1', 'utf16le'] as const;
  const texts = encodings.map((encoding) => bytes.toString(encoding));
  return { parts: bytes.length < 2 ? texts : [...texts, bytes.join()], inner: [], isWhole: true };
}

const urlParts = [
  ...(['href', 'host', 'hostname', 'port', 'username', 'password', 'pathname', 'search', 'hash'] as const),
];

/** Texts and numbers that an object with a `toJSON` shows beside it: by getters of its class, and where it is made text. */
function shownBy(value: object): unknown[] {
  if (value instanceof URL) {
    const decoded = value.pathname.split('/').map((part) => attempt(() => decodeURIComponent(part)));
    const { searchParams } = value;
    return [
      ...urlParts.map((part) => value[part]),
      ...searchParams.keys(),
      ...searchParams.values(),
      ...decoded,
    ].flatMap((part) => (typeof part === 'string' && part.startsWith('#') ? [part, part.slice(1)] : [part]));
  }
  const shown: unknown[] = [attempt(() => String(value)), attempt(() => value.valueOf())];
  for (let level = Object.getPrototypeOf(value); level !== null; level = Object.getPrototypeOf(level)) {
    if (level === Object.prototype) break;
    for (const key of Reflect.ownKeys(level).slice(0, mostGetters)) {
      if (Object.getOwnPropertyDescriptor(level, key)?.get === undefined) continue;
      shown.push(attempt(() => Reflect.get(value, key)));
    }
  }
  return keepsPrivate(value) ? shown : shown.filter(isTextual);
}

const isTextual = (part: unknown): boolean => typeof part === 'string' || typeof part === 'number';
const isObject = (part: unknown): boolean => typeof part === 'object' && part !== null;

/** Whether its own class has private fields: of libraries, whose objects may do more when they are asked, few have. */
function keepsPrivate(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  const owner = prototype && (Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown);
  return (
    typeof owner === 'function' && /#[A-Za-z_$\u0080-\uffff]/.test(Function.prototype.toString.call(owner))
  );
}

/** What an object that cannot be read in full shows, inside one whose `toJSON` has said what it is. */
export function shownInside(value: object): readonly unknown[] {
  return attempt(() => (keepsPrivate(value) ? shownBy(value).filter(isTextual) : [])) ?? [];
}

const mostGetters = 100;

const dataClasses = new WeakMap<object, boolean>();
const plainPrototypes = new Set<object | null>([
  ...[null, Object.prototype, Array.prototype, Map.prototype, Set.prototype, Date.prototype],
]);
/** Private fields, and an instance that is handed to somebody, such as a WeakMap that keeps its text. */
const keepsElsewhere = /#[A-Za-z_$\u0080-\uffff]|\baccessor\s|[(,]\s*this\s*[,)]|\[native code\]/;
/** What decorators of fields compile to. */
const initializers = /__runInitializers\(\s*(?:\w+,\s*\d+,\s*)?this\b/g;

/** Whether instances hold what their properties say and nothing else: the class has no methods, getters or private fields. */
function isDataClass(prototype: object | null): boolean {
  if (prototype === null || plainPrototypes.has(prototype)) return true;
  let known = dataClasses.get(prototype);
  if (known === undefined) {
    known = holdsNoMore(prototype) && isDataClass(Object.getPrototypeOf(prototype) as object | null);
    dataClasses.set(prototype, known);
  }
  return known;
}

function holdsNoMore(prototype: object): boolean {
  if (Reflect.ownKeys(prototype).some((key) => key !== 'constructor')) return false;
  const owner = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown;
  if (typeof owner !== 'function') return false;
  return !keepsElsewhere.test(Function.prototype.toString.call(owner).replace(initializers, ''));
}

/** A getter that throws hides nothing: what `toJSON` makes of it, it made without. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isRefusal(error)) throw error;
    return undefined;
  }
}

/**
 * What a `Map` is published as. Throws `SVC_PROTECT_UNSUPPORTED_TYPE` for keys that no JSON has, `SVC_PROTECT_TOO_LARGE` for more
 * entries than may be read, of which a class with its own iterator may have any number.
 */
export function objectOfMap(map: ReadonlyMap<unknown, unknown>, { left }: Budget): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  let entries = 0;
  for (const [key, value] of map) {
    if (++entries > left) throw tooLarge();
    if (typeof key === 'object' || typeof key === 'symbol' || typeof key === 'function') {
      throw refusal(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds a Map whose keys are objects, which has no JSON form',
      );
    }
    define(object, typeof key === 'bigint' ? textOfBigInt(key) : String(key), value);
  }
  return object;
}

/** What a `Set` is published as. Throws `SVC_PROTECT_TOO_LARGE` for more values than may be read. */
export function listOfSet(set: Iterable<unknown>, { left }: Budget): unknown[] {
  const list: unknown[] = [];
  for (const value of set) {
    if (list.length === left) throw tooLarge();
    list.push(value);
  }
  return list;
}

/** What an object owns now, read once. Engines keep the keys of small objects at hand, so that counting them first is free. */
export function copyOf(object: Record<string, unknown>, { left }: Budget): Record<string, unknown> {
  if (countKeys(object, left) > left) throw tooLarge();
  return { ...object };
}

/** How many keys an object has, or one more than `most`. Copying one of millions of keys takes seconds, counting them less. */
function countKeys(object: object, most: number): number {
  let count = 0;
  for (const _ in object) if (++count > most) break;
  return count;
}

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

import { types } from 'node:util';
import { isTooBig } from '../ground/bounds.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import { type Budget, isRefusal, maxNodes, tooLarge } from './budget.ts';
import {
  type ClearTexts,
  encodingsOf,
  fold,
  holdsWord,
  letterOrDigit,
  mayHoldEncoded,
  readingsOf,
  squeeze,
} from './clear-texts.ts';
import { type ClassMarks, marksOf, readMarked } from './marks/class-marks.ts';
import { strictest } from './mask.ts';

interface Contents {
  /** Values, keys of maps, the result of `toJSON`, and possible text forms. */
  readonly parts: readonly unknown[];
  /** Values inside an object that has its own `toJSON`. */
  readonly inner: readonly unknown[];
  /** False: the object may hold a text that is in neither, such as that of a private field. */
  readonly isWhole: boolean;
}

/** Longer binary data is not searched as text. */
const mostSearchedBytes = 65_536;
const nothingKnown: Contents = { parts: [], inner: [], isWhole: false };

/** Everything that can be read from an object. `isWhole` is false if a part cannot be read. */
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
  // Its internals belong to a class that nobody describes with marks.
  const { parts: inner } = own;
  const isWhole = !isOpaqueHeir(value);
  if (typeof said === 'object' && said !== null)
    return { parts: [said], inner, isWhole: isWhole && Object.keys(said).length > 0 };
  if (said === undefined || said === null || typeof said === 'boolean' || isRedacted(said))
    return { ...own, isWhole: false };
  const shown = shownBy(value);
  return { parts: [said, ...shown.filter(isTextual)], inner: [...inner, ...shown.filter(isObject)], isWhole };
}

/** A placeholder for another text, which methods of the object may return. */
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
  // A proxy can return values that it does not list.
  if (types.isProxy(value)) return whole(parts, false);
  // Plain objects and lists may be empty; an instance without fields keeps its text elsewhere.
  const isInstance = prototype !== null && prototype !== Object.prototype && !Array.isArray(value);
  return whole(parts, isKnown && (parts.length > 0 || !isInstance));
}

interface HoldingRules {
  readonly budget: Budget;
  /** Objects of other classes that lead to no marks, such as the connection of a model. They are not searched again. */
  readonly withoutMarks: WeakSet<object>;
}

/** Objects of classes without `toJSON` that are searched from one object. */
const mostOthers = 500;
const objectsBetweenLooks = 128;
/** A list of this length without objects is remembered, as each object that holds it would read it again. */
const many = 64;

/** The limits of a quick look. */
const quick = { values: 1_000, levels: 8 };

/**
 * Whether an object with a `toJSON` needs the full search of `heldMarked`. Most hold only texts and numbers, in plain objects,
 * lists and other objects with a `toJSON`. Anything else needs it, and anything that cannot be read.
 */
function mayHoldMarked(root: object): boolean {
  try {
    return !isReadByKeys(root) || leftAfter(root, quick.values, quick.levels) < 0;
  } catch {
    return true;
  }
}

/** How many values may still be read after this object; negative: it needs the full search. */
function leftAfter(object: object, most: number, levels: number): number {
  if (levels === 0) return -1;
  let left = most;
  if (Array.isArray(object)) {
    const { length } = object;
    if (length > left) return -1;
    for (let index = 0; index < length && left >= 0; index++)
      left = leftAfterValue(object[index], left - 1, levels);
    return left;
  }
  for (const key in object) {
    left = leftAfterValue((object as Readonly<Record<string, unknown>>)[key], left - 1, levels);
    if (left < 0) return left;
  }
  return left;
}

function leftAfterValue(value: unknown, left: number, levels: number): number {
  if (typeof value !== 'object' || value === null) return left;
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === Array.prototype)
    return leftAfter(value, left, levels - 1);
  if (prototype === Date.prototype) return left;
  if (marksOf(prototype) !== null || !hasToJson(value) || !isReadByKeys(value)) return -1;
  return leftAfter(value, left, levels - 1);
}

/** Whether it is an instance of a class that keeps in own fields what JSON shows. */
function isReadByKeys(value: object): boolean {
  if (ArrayBuffer.isView(value) || types.isMap(value) || types.isSet(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === null) return true;
  let known = withoutKeys.get(prototype);
  if (known === undefined) {
    known = true;
    for (const _ in prototype) known = false;
    withoutKeys.set(prototype, known);
  }
  return known;
}

/** Prototypes, and whether instances inherit no keys from them: such getters may have side effects. */
const withoutKeys = new WeakMap<object, boolean>();

/**
 * The objects of marked classes that an object holds in its enumerable properties, at any depth. The search goes through plain
 * objects, lists, maps, sets and objects with a `toJSON`. It goes through a bounded number of others, as models hold half of
 * their library. Objects too large to publish are skipped.
 */
function heldMarked(
  root: object,
  { budget, withoutMarks }: HoldingRules,
): readonly (readonly [object, ClassMarks])[] {
  if (!mayHoldMarked(root)) return [];
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
  // A search that ended early says nothing about plain objects, which may be reachable in another way.
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

/** `asStored`: getters are not called, as those of other libraries may have side effects. */
function enumerableValues(object: object, asStored: boolean): readonly unknown[] {
  if (Array.isArray(object)) return object.length > maxNodes ? [] : Array.from(object);
  if (types.isMap(object)) return [...firstOf(object.keys()), ...firstOf(object.values())];
  if (types.isSet(object)) return firstOf(object);
  if (countKeys(object, maxNodes) > maxNodes) return [];
  if (!asStored) return Object.keys(object).map((key) => attempt(() => Reflect.get(object, key)));
  return Object.keys(object).map((key) => Object.getOwnPropertyDescriptor(object, key)?.value as unknown);
}

/** The iterator of a class may be infinite. */
function firstOf(values: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  for (const value of values) {
    if (first.length === maxNodes) break;
    first.push(value);
  }
  return first;
}

function propertiesOf(value: object): unknown[] {
  const parts: unknown[] = [];
  for (const key of Reflect.ownKeys(value)) {
    if (key === 'length' && Array.isArray(value)) continue;
    parts.push(attempt(() => Reflect.get(value, key)));
  }
  return parts;
}

/** Numbers, days and the usual forms of a date. */
function formsOfDate(date: Date): readonly unknown[] {
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

/** The class of a value without parts: it may keep a text beside it. */
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

/** The text of a list of characters, or of their code points. */
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

/** Texts and numbers that an object with a `toJSON` also shows: by getters of its class, and when it is converted to text. */
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

/** Whether its own class has private fields. Few classes of libraries do, and their objects may have side effects. */
function keepsPrivate(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  const owner = prototype && (Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown);
  return (
    typeof owner === 'function' && /#[A-Za-z_$\u0080-\uffff]/.test(Function.prototype.toString.call(owner))
  );
}

/** The visible part of an object that cannot be read in full, inside an object with a `toJSON`. */
function shownInside(value: object): readonly unknown[] {
  return attempt(() => (keepsPrivate(value) ? shownBy(value).filter(isTextual) : [])) ?? [];
}

const mostGetters = 100;

const dataClasses = new WeakMap<object, boolean>();
const plainPrototypes = new Set<object | null>([
  ...[null, Object.prototype, Array.prototype, Map.prototype, Set.prototype, Date.prototype],
]);
/** Private fields, and an instance that is passed elsewhere, such as to a WeakMap that keeps its text. */
const keepsElsewhere = /#[A-Za-z_$\u0080-\uffff]|\baccessor\s|[(,]\s*this\s*[,)]|\[native code\]/;
/** The compiled form of field decorators. */
const initializers = /__runInitializers\(\s*(?:\w+,\s*\d+,\s*)?this\b/g;

/** Whether instances hold their properties and nothing else: the class has no methods, getters or private fields. */
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

/** A getter that throws hides nothing: `toJSON` could not read it either. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isRefusal(error)) throw error;
    return undefined;
  }
}

/** A `Set` as it is published. Throws `SVC_PROTECT_TOO_LARGE` for too many values. */
export function listOfSet(set: Iterable<unknown>, { left }: Budget): unknown[] {
  const list: unknown[] = [];
  for (const value of set) {
    if (list.length === left) throw tooLarge();
    list.push(value);
  }
  return list;
}

/** A copy of the own properties, read once. Engines cache the keys of small objects, so counting them first is free. */
export function copyOf(object: Record<string, unknown>, { left }: Budget): Record<string, unknown> {
  if (countKeys(object, left) > left) throw tooLarge();
  return { ...object };
}

/** The number of keys, at most `most` + 1. Copying an object of millions of keys takes seconds, counting them less. */
function countKeys(object: object, most: number): number {
  let count = 0;
  for (const _ in object) if (++count > most) break;
  return count;
}

/**
 * The marks of a class with its own `toJSON`. They apply to keys of the same name anywhere in its JSON, and to the marked
 * values under any name.
 */
export interface MarkedValues {
  readonly marks: ClassMarks;
  /**
   * The rule for a text in the result of `toJSON`, where `given` applies. A text that is a marked value gets the rule of its
   * field. A text that holds one, as it is or escaped, is hidden. If several match, the strictest applies. A marked field of
   * unknown text is in every text that is not the value of another field.
   * @param isOfPath whether a path rule is given for this place: it applies, but shows no part that a mask hides
   * @param key the key that the text stands at
   */
  ruleOfText(
    text: string,
    given: FieldRule | undefined,
    isOfPath: boolean,
    key?: string | symbol | undefined,
  ): FieldRule | undefined;
  /** The rule of the marked field whose value is or holds this object. */
  ruleOfObject(object: object): FieldRule | undefined;
  /** Whether a text is or holds one of the marked values in Base64 or hexadecimal. */
  holdsEncoded(text: string): boolean;
  /** Adds the rules of the marked values that a folded text is or holds. `key`: the key that the whole text stands at. */
  find(folded: string, found: Found, key?: string | symbol | undefined): void;
}

interface Found {
  readonly same: FieldRule[];
  readonly held: FieldRule[];
}

/** Shorter numbers match by chance. Texts shorter than `part` are searched as separate words, single characters not at all. */
const shortest = { number: 4, part: 5, word: 2, squeezed: 8 };
/** The limit of a payload. */
const maxDepth = 64;
const comparisonsBetweenLooks = 1_024;

interface ReadingRules {
  readonly budget: Budget;
  readonly clear: ClearTexts | undefined;
  /** Called for a field that holds an object whose text cannot be read. */
  readonly onUnreadable?: ((field: string) => void) | undefined;
}

const noMarks: ClassMarks = new Map();

/**
 * Reads the marked fields once: of the object, and of the marked objects that it holds, as `toJSON` of an ORM's model may copy
 * them. `outer`: the marks of an enclosing object. `undefined` if nothing is marked.
 */
export function markedValuesOf(
  object: object,
  marks: ClassMarks | null,
  outer: MarkedValues | undefined,
  rules: ReadingRules & HoldingRules,
): MarkedValues | undefined {
  const held = heldMarked(object, rules);
  if (marks === null && held.length === 0) return outer;
  const { budget, clear, onUnreadable } = rules;
  const texts = new Map<string, FieldRule[]>();
  const objects = new Map<object, FieldRule[]>();
  /** Of marked fields whose text may be readable by their class only. */
  const unknown: FieldRule[] = [];
  /** Unfolded, for their encoded forms. */
  const plains = new Map<string, FieldRule[]>();
  /** By field name: such values of held objects are recognized there, however short. */
  const named = new Map<string, Map<string, FieldRule[]>>();
  const letters = new Map<string, FieldRule[]>();
  let encoded: ReadonlyMap<string, FieldRule[]> | undefined;
  let compared = 0;

  /** `counts`: the value has not been read elsewhere, so an unreadable text makes it unknown. */
  function take(value: unknown, rule: FieldRule, depth: number, counts: boolean): void {
    if (typeof value === 'object' && value !== null) takeObject(value, rule, depth, counts);
    else if (typeof value === 'string' || isLongNumber(value)) {
      takeText(String(value), rule);
      for (const form of formsOfDate(new Date(timeOf(value)))) takeText(String(form), rule);
    } else if (typeof value === 'symbol') takeText(value.description ?? '', rule);
    else if (typeof value === 'function' && counts) noteUnknown(rule);
  }

  function noteUnknown(rule: FieldRule): void {
    if (!unknown.includes(rule)) unknown.push(rule);
  }

  function takeText(text: string, rule: FieldRule): void {
    clear?.check(text);
    budget.spendText(text.length);
    const folded = fold(text);
    if (folded === '') return;
    add(texts, folded, rule);
    add(plains, text, rule);
    const squeezed = squeeze(folded);
    if (squeezed.length >= shortest.squeezed) add(letters, squeezed, rule);
  }

  function takeObject(value: object, rule: FieldRule, depth: number, counts: boolean): void {
    if (objects.get(value)?.includes(rule)) return;
    add(objects, value, rule);
    if (depth > maxDepth) {
      if (counts) noteUnknown(rule);
      return;
    }
    const { parts, inner, isWhole } = contentsOf(value, budget);
    if (!isWhole && counts) noteUnknown(rule);
    if (!isWhole && !counts) for (const part of shownInside(value)) take(part, rule, depth + 1, false);
    for (const part of parts) take(part, rule, depth + 1, counts);
    for (const part of inner) take(part, rule, depth + 1, false);
  }

  function encodedTexts(): ReadonlyMap<string, FieldRule[]> {
    if (encoded !== undefined) return encoded;
    const made = new Map<string, FieldRule[]>();
    for (const [plain, rules] of plains)
      for (const part of encodingsOf(plain)) for (const rule of rules) add(made, fold(part), rule);
    encoded = made;
    return made;
  }

  function takeFields(of: object, fields: ClassMarks, isHeld: boolean): void {
    budget.spend(fields.size);
    for (const [field, rule] of fields) {
      const value = attempt(() => readMarked(of, field, rule));
      const before = unknown.length;
      take(value, rule, 0, true);
      if (unknown.length > before) onUnreadable?.(field);
      if (!isHeld || !hasText(value)) continue;
      const texts = named.get(field) ?? new Map<string, FieldRule[]>();
      add(texts, fold(String(value)), rule);
      named.set(field, texts);
    }
  }

  if (marks !== null) takeFields(object, marks, false);
  for (const [one, fields] of held) takeFields(one, fields, true);

  const values: MarkedValues = {
    marks: outer === undefined ? (marks ?? noMarks) : new Map([...outer.marks, ...(marks ?? noMarks)]),

    ruleOfObject(value) {
      const rules = objects.get(value);
      return rules === undefined ? outer?.ruleOfObject(value) : strictest(rules, false);
    },

    ruleOfText(text, given, isOfPath, key) {
      budget.spendText(text.length);
      const found: Found = { same: [], held: [] };
      values.find(fold(text), found, key);
      const { same, held } = found;
      if (same.length === 0) {
        for (const reading of readingsOf(text, (length) => budget.spendReading(length))) {
          const inside: Found = { same: [], held: [] };
          values.find(fold(reading), inside);
          held.push(...inside.same, ...inside.held);
        }
      }
      if (same.length > 0) {
        if (given === undefined) return strictest(same, false);
        return isOfPath || same.includes(given) ? given : strictest([...same, given], false);
      }
      if (held.length === 0 || (isOfPath && given?.strategy !== 'MASK' && given !== undefined)) return given;
      return strictest(given === undefined ? held : [...held, given], true);
    },

    holdsEncoded(text) {
      const folded = fold(text);
      if (!mayHoldEncoded(folded)) return false;
      budget.spendText(text.length);
      for (const part of encodedTexts().keys()) if (folded.includes(part)) return true;
      for (const reading of readingsOf(text, (length) => budget.spendReading(length))) {
        const read = fold(reading);
        if (texts.has(read)) return true;
        for (const part of texts.keys())
          if (part.length >= shortest.squeezed && read.includes(part)) return true;
      }
      return outer?.holdsEncoded(text) ?? false;
    },

    find(folded, found, key) {
      const same = texts.get(folded) ?? (typeof key === 'string' ? named.get(key)?.get(folded) : undefined);
      if (same !== undefined) found.same.push(...same);
      else {
        for (const [part, rules] of texts) {
          if (++compared % comparisonsBetweenLooks === 0) budget.look();
          if (holds(folded, part)) found.held.push(...rules);
        }
        const squeezed = letters.size === 0 ? '' : squeeze(folded);
        if (squeezed.length >= shortest.squeezed) {
          for (const [part, rules] of letters) {
            if (++compared % comparisonsBetweenLooks === 0) budget.look();
            if (squeezed.includes(part)) found.held.push(...rules);
          }
        }
        if (mayHoldEncoded(folded)) {
          for (const [part, rules] of encodedTexts()) {
            if (++compared % comparisonsBetweenLooks === 0) budget.look();
            if (folded.includes(part)) found.held.push(...rules);
          }
        }
        found.held.push(...unknown);
      }
      outer?.find(folded, found, key);
    },
  };
  return values;
}

function add<Key>(rules: Map<Key, FieldRule[]>, key: Key, rule: FieldRule): void {
  const known = rules.get(key);
  if (known === undefined) rules.set(key, [rule]);
  else if (!known.includes(rule)) known.push(rule);
}

function holds(text: string, part: string): boolean {
  if (part.length >= shortest.part) return text.length > part.length && text.includes(part);
  return part.length >= shortest.word && letterOrDigit().test(part) && holdsWord(text, part);
}

/** Milliseconds of a number or text that is a time; else NaN. */
function timeOf(value: unknown): number {
  if (typeof value === 'number') return value > 1e11 && value < 1e13 ? value : Number.NaN;
  return typeof value === 'string' && isTime.test(value) ? Date.parse(value) : Number.NaN;
}
const isTime = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?$/;

/** Whether the value has a text, even a short one. */
function hasText(value: unknown): boolean {
  if (typeof value === 'bigint') return !isTooBig(value);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function isLongNumber(value: unknown): boolean {
  if (typeof value === 'bigint') return !isTooBig(value) && String(value).length >= shortest.number;
  return typeof value === 'number' && String(value).length >= shortest.number;
}

export interface HasToJson {
  toJSON(key: string): unknown;
}

export function hasToJson(value: object): value is HasToJson {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

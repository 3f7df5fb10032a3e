// protect/: from an envelope to an event that may leave the process.

import { types } from 'node:util';
import type { Envelope } from '../envelope/envelope.ts';
import { isTooBig } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { type Clock, systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { lazyPattern } from '../ground/names.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import type { Logger } from '../observe/logger.ts';
import { asRefusal, Budget, refusal, textOfBigInt, tooLarge, trusted } from './budget.ts';
import { type ClearText, ClearTexts, readingsOf } from './clear-texts.ts';
import { type ClassMarks, hasMarks, marksOf } from './marks/class-marks.ts';
import { deadState, type PathState, type Policy } from './marks/policy.ts';
import { mask } from './mask.ts';
import { elementPath, memberPath, NativeValue } from './own-text.ts';
import {
  contentsOf,
  copyOf,
  type HasToJson,
  hasToJson,
  listOfSet,
  type MarkedValues,
  markedValuesOf,
  textsOfList,
} from './parts-of.ts';
import type { SealedField, Sealer } from './sealer.ts';

declare const protectedMark: unique symbol;

/** An envelope that may leave the process. Only a protector makes one, and serializers accept nothing else. */
export interface ProtectedEnvelope extends Omit<Envelope, 'payload'> {
  readonly payload: Readonly<Record<string, unknown>>;
  /** The ciphertexts and hashes in it. Serializers mark all other texts that look like one: see `own-text.ts`. */
  readonly sealed: readonly string[];
  readonly [protectedMark]: true;
}

export type Unsealed = UnsealedError<ProtectedEnvelope>;

/**
 * The only way from an envelope to something that can be serialized. Fails closed: if a value cannot be represented or
 * protected safely, it throws an `SvcError` that names no value, and the event is refused. A payload that is not an object
 * becomes `{ "value": … }`.
 * @param clearTexts texts that leave in clear beside the payload, such as the record key. The event is refused if one of them
 * is or holds a protected value.
 */
export type Protect = (envelope: Envelope, clearTexts?: readonly ClearText[]) => ProtectedEnvelope;

export interface ProtectorOptions {
  /** The rules of an event type. Called once per event. */
  readonly policyOf: (eventType: string) => Policy;
  readonly sealer: Sealer;
  /** Called for unmarked values: `svc.pii.detect: report`. */
  readonly detect?: Detect | undefined;
  /** Called for marked fields that hold objects whose text only their class can read. */
  readonly onUnreadable?: ((eventType: string, field: string) => void) | undefined;
  /** False: class marks have no effect. Default: true. */
  readonly usesMarks?: boolean;
  /** The event format has native bytes and BigInts, so they stay as they are. Default: false. */
  readonly keepsTypes?: boolean;
  /** If a key is temporarily unavailable, an `UnsealedError` is thrown, which can be sealed later. Default: false. */
  readonly defers?: boolean;
  /** Default: the system clock. */
  readonly clock?: Pick<Clock, 'monotonic'>;
}

/** Called with one unmarked value. `keys` is its path from the root of the payload. */
type Detect = (eventType: string, value: string | number, keys: readonly Step[]) => void;

/** Protects payloads by the marks of their classes and by the rules of their event type. */
export function createProtector(options: ProtectorOptions): Protect {
  const {
    policyOf,
    detect,
    onUnreadable,
    keepsTypes,
    usesMarks = true,
    clock: { monotonic } = systemClock,
  } = options;
  return (envelope, clearTexts) => {
    const { payload: given } = envelope;
    const { eventType } = envelope.template;
    const policy = policyOf(eventType);
    const sealed: string[] = [];
    const deferring = options.defers ? new DeferringSealer(options.sealer) : undefined;
    const sealer = deferring ?? options.sealer;
    const payload = walkPayload(given, {
      eventType,
      policy,
      sealer,
      usesMarks: usesMarks && hasMarks(),
      sealed,
      onUnmarked: detect && ((value, keys) => detect(eventType, value, keys)),
      onUnreadable: onUnreadable && ((field) => onUnreadable(eventType, field)),
      keepsTypes,
      clearTexts,
      monotonic,
    });
    const isObject = typeof payload === 'object' && payload !== null && !Array.isArray(payload);
    const result = {
      eventId: envelope.eventId,
      template: envelope.template,
      occurredAt: envelope.occurredAt,
      trace: envelope.trace,
      origin: envelope.origin,
      payload: (isObject ? payload : { value: payload ?? null }) as Record<string, unknown>,
      sealed,
    };
    const protectedOne = result as object as ProtectedEnvelope;
    if (deferring?.reason === undefined) return protectedOne;
    throw new UnsealedError(deferring.reason, () => {
      deferring.fill(result.payload, sealed);
      return protectedOne;
    });
  };
}

/**
 * A payload that was read, but whose key is temporarily unavailable. Callers that cannot wait refuse the event, as with any
 * other error. It holds values in clear: keep it in memory only, and out of any text.
 */
export class UnsealedError<Sealed> extends SvcError {
  /** Returns the sealed event; throws the same reason while the key is unavailable. */
  readonly seal: () => Sealed;

  constructor({ code, message, name }: SvcError, seal: () => Sealed) {
    super(code, message, { name });
    // Not in a dump of the error.
    Object.defineProperty(this, 'seal', { enumerable: false });
    this.seal = seal;
  }
}

interface Deferred {
  readonly token: string;
  readonly plain: string;
  readonly field: SealedField;
}

/** Seals the values of one event, and leaves tokens for those whose key is unavailable. */
class DeferringSealer implements Sealer {
  readonly hash: Sealer['hash'];
  readonly #sealer: Sealer;
  readonly #deferred: Deferred[] = [];
  #reason: SvcError | undefined;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
    this.hash = (plain) => sealer.hash(plain);
  }

  /** Why a key is missing; `undefined` if no key is. */
  get reason(): SvcError | undefined {
    return this.#reason;
  }

  encrypt(plain: string, field: SealedField): string {
    try {
      return this.#sealer.encrypt(plain, field);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'SVC_PROTECT_KEY_UNAVAILABLE') throw error;
      this.#reason ??= error;
      const token = `ENC(${nodeCrypto().randomUUID()})`;
      const { keyId, eventType, path } = field;
      this.#deferred.push({ token, plain, field: { keyId, eventType, path } });
      return token;
    }
  }

  /** Replaces the tokens by ciphertexts: all of them, or none if it throws. */
  fill(payload: Record<string, unknown>, sealed: string[]): void {
    const texts = new Map(
      this.#deferred.map(({ token, plain, field }) => [token, this.#sealer.encrypt(plain, field)]),
    );
    replaceIn(payload, texts);
    replaceIn(sealed, texts);
  }
}

/** `parts` belongs to the copy that the walk has made. */
function replaceIn(parts: Record<string, unknown> | unknown[], texts: ReadonlyMap<string, string>): void {
  const all = parts as Record<string, unknown>;
  for (const key of Object.keys(all)) {
    const part = all[key];
    if (typeof part === 'string') {
      const text = texts.get(part);
      if (text !== undefined) all[key] = text;
    } else if (typeof part === 'object' && part !== null) replaceIn(part as Record<string, unknown>, texts);
  }
}

/** Objects nested deeper are refused; this also finds cycles. */
export const maxDepth = 64;

/**
 * A payload as JSON can carry it without silent loss, its marked values protected. `Map` becomes an object, `Set` an array,
 * `Date` ISO text, `BigInt` text, bytes Base64; `toJSON` is honored. Everything is read once, into a copy, before anything is
 * decided: a getter or proxy could return something else the second time.
 * Throws `SVC_PROTECT_DEPTH_OR_CYCLE`, `SVC_PROTECT_TOO_LARGE`, `SVC_PROTECT_READ_ERROR` (a getter, `toJSON` or proxy threw),
 * `SVC_PROTECT_UNSUPPORTED_TYPE` (such as errors and promises, whose JSON is empty or unsafe), and the errors of the sealer.
 */
export function walkPayload(payload: unknown, rules: WalkRules): unknown {
  const budget = new Budget(rules.monotonic);
  const walk: Walk = {
    eventType: rules.eventType,
    policy: rules.policy,
    sealer: rules.sealer,
    onUnmarked: rules.onUnmarked,
    onUnreadable: rules.onUnreadable,
    budget,
    clear: rules.clearTexts && new ClearTexts(rules.clearTexts, budget),
    keys: [],
    entries: [],
    index: 0,
    usesMarks: rules.usesMarks,
    withoutMarks: new WeakSet(),
    keepsTypes: rules.keepsTypes,
    sealed: rules.sealed,
    isQuick: rules.onUnmarked === undefined && !isPolluted(),
  };
  try {
    const place = rootPlace(payload, walk.policy);
    if (place.rule?.strategy === 'EXCLUDE') {
      leaveOut(payload, walk);
      return undefined;
    }
    const result = visit(payload, 0, walk, place);
    return result === excluded ? undefined : result;
  } catch (error) {
    throw asRefusal(error);
  }
}

/** Whether the prototype of all objects has enumerable keys, which a `for … in` would find. */
function isPolluted(): boolean {
  for (const _ in Object.prototype) return true;
  return false;
}

function visit(value: unknown, depth: number, walk: Walk, place: Place): unknown {
  if (typeof value === 'function') {
    return hasToJson(value) ? visitToJson(value, depth, walk, place, null) : undefined;
  }
  if (isBigIntWithToJson(value)) return visitToJson(value, depth, walk, place, null);
  if (typeof value !== 'object' || value === null) return leaf(value, depth, walk, place);
  if (depth > maxDepth) {
    throw refusal(
      'SVC_PROTECT_DEPTH_OR_CYCLE',
      `the payload is nested deeper than ${maxDepth} levels or refers to itself`,
    );
  }
  const there = place.json === undefined ? place : placeOfObject(value, place);
  if (there !== place && there.rule?.strategy === 'EXCLUDE') return leaveOut(value, walk);
  const prototype = Object.getPrototypeOf(value) as object | null;
  const kind = kindOf(value, prototype);
  const marks = walk.usesMarks ? marksOf(prototype) : null;
  if (decidesItsJson(value, kind)) return visitToJson(value, depth, walk, there, marks);
  return visitKind(value, kind, depth, walk, there, marks);
}

function visitKind(
  value: object,
  kind: Kind,
  depth: number,
  walk: Walk,
  place: Place,
  marks: ClassMarks | null,
): unknown {
  switch (kind) {
    case 'plain':
      return visitCopy(copyOf(value as Record<string, unknown>, walk.budget), depth, walk, place, marks);
    case 'array':
      return visitArray(value as unknown[], depth, walk, place);
    case 'map':
      return visitMap(value as Map<unknown, unknown>, depth, walk, place);
    case 'set':
      return visitArray(listOfSet(value as Set<unknown>, walk.budget), depth, walk, place);
    case 'unsupported':
      throw refusal(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds an Error, Promise, RegExp, WeakMap or similar object, which has no JSON form',
      );
    default: {
      const plain = primitiveOf(value, kind, walk.budget);
      const after = leaf(plain, depth, walk, place);
      if (kind === 'bytes' && walk.keepsTypes && after === plain)
        return new NativeValue(plain as string, 'bytes');
      // A text is returned as one, so that it can still be marked.
      return kind === 'raw json' && after === plain && !isRawText(value) ? value : after;
    }
  }
}

function visitMap(map: ReadonlyMap<unknown, unknown>, depth: number, walk: Walk, place: Place): unknown {
  const copy = objectOfMap(map, walk.budget);
  if (walk.onUnmarked === undefined) return visitCopy(copy, depth, walk, place, null);
  walk.entries[depth] = true;
  const result = visitCopy(copy, depth, walk, place, null);
  walk.entries[depth] = false;
  return result;
}

/** Nothing of it is published, but a clear text may show it. */
function leaveOut(value: unknown, { clear, budget }: Walk): typeof excluded {
  if (clear !== undefined) compareLeftOut(value, clear, budget);
  return excluded;
}

function visitCopy(
  copy: Record<string, unknown>,
  depth: number,
  walk: Walk,
  place: Place,
  marks: ClassMarks | null,
): unknown {
  if (place === deadState && marks === null && walk.isQuick) return visitFree(copy, depth, walk);
  let nodes = 0;
  for (const key in copy) {
    if (!walk.isQuick && !Object.hasOwn(copy, key)) continue;
    nodes++;
    if (place.json !== undefined) checkKey(key, place.json);
    const before = copy[key];
    const next = placeOf(key, place, marks);
    const { rule } = next;
    let after: unknown;
    if (hasParts(before)) {
      if (rule !== undefined && rule.strategy === 'EXCLUDE') leaveOut(before, walk);
      else {
        walk.keys[depth] = key;
        after = visit(before, depth + 1, walk, next);
      }
    } else {
      if (rule === undefined && next.json === undefined && walk.isQuick && isPlainLeaf(before)) continue;
      walk.keys[depth] = key;
      after = leaf(before, depth + 1, walk, next);
    }
    if (after === excluded) after = undefined;
    if (after !== before) copy[key] = after;
  }
  walk.budget.spend(nodes);
  return copy;
}

/** For places that no rule can reach, which is most of a payload. */
function visitFree(copy: Record<string, unknown>, depth: number, walk: Walk): unknown {
  let nodes = 0;
  for (const key in copy) {
    nodes++;
    const before = copy[key];
    if (isPlainLeaf(before)) continue;
    walk.keys[depth] = key;
    const after = visit(before, depth + 1, walk, deadState);
    if (after !== before) copy[key] = after === excluded ? undefined : after;
  }
  walk.budget.spend(nodes);
  return copy;
}

function hasParts(value: unknown): boolean {
  const type = typeof value;
  return (type === 'object' && value !== null) || type === 'function' || isBigIntWithToJson(value);
}

/** Published unchanged if no rule applies. */
function isPlainLeaf(value: unknown): boolean {
  const type = typeof value;
  return type === 'string' || type === 'number' || type === 'boolean' || value === null;
}

function visitArray(array: readonly unknown[], depth: number, walk: Walk, place: Place): unknown {
  // The array may grow while its elements are visited.
  const { length } = array;
  walk.budget.spend(length);
  const next = placeOfElements(array, place);
  if (next.rule?.strategy === 'EXCLUDE') {
    leaveOut(array, walk);
    return [];
  }
  const copy: unknown[] = [];
  const isFree = next.rule === undefined && next.json === undefined && walk.isQuick;
  walk.keys[depth] = element;
  for (let index = 0; index < length; index++) {
    walk.index = index;
    if ((index & 0xff) === 0xff) walk.budget.look();
    const before = array[index];
    const after = isFree && isPlainLeaf(before) ? before : visit(before, depth + 1, walk, next);
    if (after !== excluded) copy.push(after);
  }
  return copy;
}

/** For a list from `toJSON`: it may be the characters or bytes of a marked value. */
function placeOfElements(array: readonly unknown[], place: Place): Place {
  const next = elementPlace(place);
  const { state, rule, json } = next;
  if (json === undefined || rule !== undefined) return next;
  for (const text of textsOfList(array)) {
    const found = json.ruleOfText(text, undefined, false);
    if (found !== undefined) return { state, rule: found, json };
  }
  return next;
}

const indexLike = /^\d{1,6}$/;
/** The Base64 length of eight characters. */
const shortestEncodedKey = 10;

/**
 * Keys are not protected, so a key of a `toJSON` result must not be or hold a marked value. A field name or an index is allowed
 * unless it is an encoded value: models hold the names of their fields as values.
 */
function checkKey(key: string, json: MarkedValues): void {
  if (nameLike.test(key) || indexLike.test(key) || json.marks.has(key)) {
    if (key.length < shortestEncodedKey || !json.holdsEncoded(key)) return;
  } else if (json.ruleOfText(key, undefined, false) === undefined) return;
  throw refusal(
    'SVC_PROTECT_TOJSON_HIDES_FIELDS',
    'toJSON of a class with marked fields, or of an object that holds one, returns a marked value as a key',
  );
}

function visitToJson(
  value: { toJSON(key: string): unknown },
  depth: number,
  walk: Walk,
  outer: Place,
  marks: ClassMarks | null,
): unknown {
  walk.budget.look();
  const result = value.toJSON(keyAt(depth, walk));
  const root = depth === 0 ? rootPlace(result, walk.policy) : outer;
  const json =
    walk.usesMarks && typeof value === 'object' ? markedValuesOf(value, marks, outer.json, walk) : outer.json;
  let place = json === outer.json ? root : { state: root.state, rule: root.rule, json };
  if (place.rule?.strategy === 'EXCLUDE') return leaveOut(result, walk);
  if (typeof result !== 'object' || result === null) {
    if (marks !== null && place.rule === undefined && hidesMarks(result, json)) {
      throw refusal(
        'SVC_PROTECT_TOJSON_HIDES_FIELDS',
        'toJSON of a class with marked fields returns a text in which the marked values cannot be found',
      );
    }
    return typeof result === 'function' ? undefined : leaf(result, depth, walk, place);
  }
  if (json !== undefined) place = placeOfObject(result, place);
  if (place.rule?.strategy === 'EXCLUDE') return leaveOut(result, walk);
  const prototype = Object.getPrototypeOf(result) as object | null;
  const own = walk.usesMarks ? marksOf(prototype) : null;
  return visitKind(result, kindOf(result, prototype), depth, walk, place, own ?? marks);
}

/**
 * The argument that native serialization passes to `toJSON`: the key, the index in an array, or an empty text for the payload.
 */
function keyAt(depth: number, walk: Walk): string {
  const key = depth === 0 ? '' : (walk.keys[depth - 1] as Step);
  return key === element ? String(walk.index) : key;
}

function hidesMarks(result: unknown, json: MarkedValues | undefined): boolean {
  if (typeof result !== 'string' && typeof result !== 'number' && typeof result !== 'bigint') return false;
  return json?.ruleOfText(textOf(result), undefined, false) === undefined;
}

/**
 * Compares everything in an excluded value with the clear texts. Unreadable parts hide nothing. It may contain cycles, but is
 * refused if it is too large to compare.
 */
function compareLeftOut(value: unknown, clear: ClearTexts, budget: Budget): void {
  const seen = new Set<object>();
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (typeof part === 'object' && part !== null) {
      if (seen.has(part)) continue;
      seen.add(part);
      const { parts, inner } = contentsOf(part, budget);
      waiting.push(...parts, ...inner);
    } else if (typeof part === 'string' || typeof part === 'number' || isFair(part)) {
      clear.check(String(part));
    }
  }
}

function isFair(part: unknown): boolean {
  return typeof part === 'bigint' && !isTooBig(part);
}

interface WalkRules {
  readonly eventType: string;
  readonly policy: Policy;
  readonly sealer: Sealer;
  /** False: class marks have no effect. */
  readonly usesMarks: boolean;
  /** Bytes and BigInts that no rule matches become a `NativeValue`. Default: their text. */
  readonly keepsTypes?: boolean | undefined;
  readonly sealed: string[];
  /** Called for each unmarked string and number with its path. A `Map` key that could be a person's name is `*` there. */
  readonly onUnmarked?: ((value: string | number, keys: readonly Step[]) => void) | undefined;
  /** Called for a marked field whose object cannot be read as text, so that all values around it are protected. */
  readonly onUnreadable?: ((field: string) => void) | undefined;
  /** Texts that leave in clear beside the payload: none may show a protected value. */
  readonly clearTexts?: readonly ClearText[] | undefined;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
}

interface Walk extends Omit<WalkRules, 'clearTexts' | 'monotonic'> {
  readonly budget: Budget;
  readonly clear: ClearTexts | undefined;
  /** Objects that were searched for marks without a result. */
  readonly withoutMarks: WeakSet<object>;
  /** The keys that lead to the current value; `element` for an array element. */
  readonly keys: Step[];
  /** Which of `keys` belong to a `Map`; used by `onUnmarked`. */
  readonly entries: boolean[];
  index: number;
  /** No `onUnmarked`, and a `for … in` finds own properties only. */
  readonly isQuick: boolean;
}

/** Stands for an excluded value. */
const excluded: unique symbol = Symbol('excluded');
/** Stands for an array element. Not a text, so that no key of a payload equals it. */
const element: unique symbol = Symbol('element');
/** One step of a path. */
type Step = string | typeof element;

/** A value without parts: its protected text if a rule applies. Values that JSON cannot represent are left to the caller. */
function leaf(value: unknown, depth: number, walk: Walk, place: Place): unknown {
  const type = typeof value;
  if (value === null || type === 'undefined' || type === 'function' || type === 'symbol') return value;
  const rule =
    place.json === undefined
      ? place.rule
      : place.json.ruleOfText(
          textOf(value),
          place.rule,
          place.rule === place.state.rule,
          walk.keys[depth - 1],
        );
  if (rule === undefined) {
    if (walk.onUnmarked !== undefined && (type === 'string' || type === 'number'))
      walk.onUnmarked(value as string | number, shownKeys(walk, depth));
    if (type !== 'bigint') return value;
    const text = textOfBigInt(value as bigint);
    return walk.keepsTypes ? new NativeValue(text, 'bigint') : text;
  }
  const plain = textOf(value);
  if (type !== 'boolean') walk.clear?.check(plain);
  if (rule.strategy === 'EXCLUDE') return excluded;
  if (type === 'number' && !Number.isFinite(value)) return null;
  walk.budget.spendText(plain.length);
  return rule.strategy === 'MASK' ? mask(plain, rule) : sealedText(plain, rule, walk, depth);
}

function shownKeys({ keys, entries }: Walk, depth: number): Step[] {
  return keys.slice(0, depth).map((key, at) => (entries[at] && nameLike.test(String(key)) ? '*' : key));
}

/** Keys of another form may be personal data themselves, as in a Map by email address. */
const nameLike = /^[A-Za-z_$][\w$-]{0,63}$/;

function textOf(value: unknown): string {
  return typeof value === 'bigint' ? textOfBigInt(value) : String(value);
}

function sealedText(plain: string, { strategy, keyId }: FieldRule, walk: Walk, depth: number): string {
  const { budget, sealer, sealed } = walk;
  budget.spendSeal();
  if (strategy !== 'ENCRYPT' && strategy !== 'HASH')
    throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value has a strategy that cannot protect it');
  const field = strategy === 'ENCRYPT' ? new WalkedField(keyId, walk, depth) : undefined;
  const text = seal(plain, sealer, field);
  budget.spendResult(text.length);
  sealed.push(text);
  return text;
}

/** Only ciphertexts of format v1 need the path, so it is built on demand. */
class WalkedField implements SealedField {
  readonly keyId: string | undefined;
  readonly eventType: string;
  readonly #keys: readonly Step[];
  readonly #depth: number;

  constructor(keyId: string | undefined, { eventType, keys }: Walk, depth: number) {
    this.keyId = keyId;
    this.eventType = eventType;
    this.#keys = keys;
    this.#depth = depth;
  }

  get path(): string {
    return pathOf(this.#keys, this.#depth);
  }
}

function pathOf(keys: readonly Step[], depth: number): string {
  if (depth === 0) return 'value';
  let path = '';
  for (let index = 0; index < depth; index++) {
    const key = keys[index] as Step;
    path = key === element ? elementPath(path === '' ? 'value' : path) : memberPath(path, key);
  }
  return path;
}

/**
 * The sealed text of a marked value: encrypted if `field` is given, else hashed. Fails closed: throws if the sealer returns
 * nothing or the value itself.
 */
function seal(plain: string, sealer: Sealer, field: SealedField | undefined): string {
  let text: unknown;
  try {
    text = field === undefined ? sealer.hash(plain) : sealer.encrypt(plain, field);
  } catch (error) {
    if (error instanceof SvcError) throw trusted(error);
    text = undefined;
  }
  if (typeof text === 'string' && text !== plain) return text;
  throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value could not be encrypted or hashed');
}

interface Place {
  readonly state: PathState;
  /** The rule of the value itself, or one inherited from an enclosing value. */
  readonly rule: FieldRule | undefined;
  /** The marks of the object whose `toJSON` returned it. */
  readonly json: MarkedValues | undefined;
}

/** A payload that is not an object is published as `{ "value": … }`. */
function rootPlace(payload: unknown, { root, valueRoot }: Policy): Place {
  if (root === valueRoot) return root;
  return typeof payload === 'object' && payload !== null && hasKeys(payload) ? root : valueRoot;
}

function hasKeys(payload: object): boolean {
  const kind = kindOf(payload, Object.getPrototypeOf(payload));
  return kind === 'plain' || kind === 'map';
}

/** The place of a key's value. Path rules precede marks; both precede the rule of the whole object. */
function placeOf(key: string, { state, rule, json }: Place, marks: ClassMarks | null): Place {
  const next = state === deadState ? deadState : state.next(key);
  if (marks === null && rule === undefined && json === undefined) return next;
  const own = next.rule ?? marks?.get(key) ?? json?.marks.get(key) ?? rule;
  return own === next.rule && json === undefined ? next : { state: next, rule: own, json };
}

function elementPlace(place: Place): Place {
  if (place.state === deadState) return place;
  const state = place.state.element();
  if (place.rule === undefined && place.json === undefined) return state;
  return { state, rule: state.rule ?? place.rule, json: place.json };
}

/** The place of an object that a marked field holds, and that `toJSON` has returned under any name. */
function placeOfObject(value: object, place: Place): Place {
  const rule = place.rule ?? place.json?.ruleOfObject(value);
  return rule === place.rule ? place : { state: place.state, rule, json: place.json };
}

type Kind =
  | 'plain'
  | 'array'
  | 'date'
  | 'map'
  | 'set'
  | 'bytes'
  | 'primitive wrapper'
  | 'raw json'
  | 'unsupported';

/** Prototypes of classes whose instances are walked like plain objects. */
const plainPrototypes = new WeakSet<object>();

/** How the walk reads an object. `prototype` is the object's own. */
function kindOf(value: object, prototype: object | null): Kind {
  if (Array.isArray(value)) return 'array';
  if (prototype === Object.prototype) return 'plain';
  if (prototype === null) return isRawJson(value) ? 'raw json' : 'plain';
  if (plainPrototypes.has(prototype)) return 'plain';
  const kind = classify(value);
  if (kind === 'plain' && isTypical(value)) plainPrototypes.add(prototype);
  return kind;
}

/**
 * Whether all objects with this prototype are plain ones. `Object.create(Map.prototype)`, or an error with its own `toJSON`,
 * must not decide how real maps and other errors are treated.
 */
function isTypical(value: object): boolean {
  if (Reflect.get(value, Symbol.toStringTag) !== undefined) return false;
  if (types.isNativeError(value) || types.isRegExp(value)) return false;
  return !builtIn.some((type) => value instanceof type);
}

/** Built-in classes without a `Symbol.toStringTag`, to recognize their subclasses. */
const builtIn = [Date, RegExp, Error, String, Number, Boolean, Object.getPrototypeOf(Uint8Array)] as const;

function classify(value: object): Kind {
  if (types.isDate(value)) return 'date';
  if (types.isMap(value)) return 'map';
  if (types.isSet(value)) return 'set';
  if (types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) return 'bytes';
  if (types.isBoxedPrimitive(value)) return 'primitive wrapper';
  const unsupported =
    types.isNativeError(value) ||
    value instanceof Error ||
    types.isPromise(value) ||
    types.isRegExp(value) ||
    types.isWeakMap(value) ||
    types.isWeakSet(value) ||
    value instanceof WeakRef ||
    types.isGeneratorObject(value);
  return unsupported && !hasToJson(value) ? 'unsupported' : 'plain';
}

/** An application may give `BigInt.prototype` a `toJSON`, as JSON has no BigInt. */
function isBigIntWithToJson(value: unknown): value is HasToJson {
  return typeof value === 'bigint' && hasToJson(BigInt.prototype);
}

const { toJSON: dateToJson, toISOString } = Date.prototype;
const bufferToJson: unknown = Buffer.prototype.toJSON;

/** Whether its own `toJSON` decides the published value. Those of `Date` and `Buffer` give the same result as the walk. */
function decidesItsJson(value: object, kind: Kind): value is HasToJson {
  if (!hasToJson(value)) return false;
  if (kind === 'date') return value.toJSON !== dateToJson || (value as Date).toISOString !== toISOString;
  return kind !== 'bytes' || value.toJSON !== bufferToJson;
}

/** The published value of an object without parts. Classes may override the conversion of a wrapper, as for JSON.stringify. */
function primitiveOf(value: object, kind: Kind, budget: Budget): unknown {
  if (kind === 'date') {
    const isValid = !Number.isNaN(Date.prototype.getTime.call(value));
    return isValid ? toISOString.call(value) : null;
  }
  if (kind === 'bytes') {
    budget.spendRawBytes((value as ArrayBuffer | ArrayBufferView).byteLength);
    return toBase64(value);
  }
  if (kind === 'raw json') {
    const { rawJSON: text } = value as { rawJSON: string };
    return isRawText(value) ? (JSON.parse(text) as string) : text;
  }
  if (types.isStringObject(value)) return String(value);
  if (types.isNumberObject(value)) return Number(value);
  if (types.isBooleanObject(value)) return Boolean.prototype.valueOf.call(value);
  return types.isBigIntObject(value) ? BigInt.prototype.valueOf.call(value) : undefined;
}

function isRawText(value: object): boolean {
  return (value as { rawJSON: string }).rawJSON.startsWith('"');
}

function isRawJson(value: object): boolean {
  return (JSON as { isRawJSON?(value: object): boolean }).isRawJSON?.(value) === true;
}

function toBase64(value: object): string {
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  return Buffer.from(value as ArrayBuffer).toString('base64');
}

/**
 * A `Map` as it is published. Throws `SVC_PROTECT_UNSUPPORTED_TYPE` for keys that JSON cannot represent,
 * `SVC_PROTECT_TOO_LARGE` for too many entries. The iterator of a subclass may be infinite.
 */
function objectOfMap(map: ReadonlyMap<unknown, unknown>, { left }: Budget): Record<string, unknown> {
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

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

/** Paths that are remembered and reported at most. */
const maxReportedPaths = 1000;
const longestSearched = 1024;

/**
 * The report mode: warns about paths of unmarked values that look like personal data. Each path of an event type is named once,
 * values never.
 */
export function createDetector(logger: Pick<Logger, 'warn'>): Detect {
  const reported = new Set<string>();
  return (eventType, value, keys) => {
    const kind = personalDataIn(String(value), typeof value);
    const keyKind = personalDataInKey(keys[keys.length - 1]);
    if (kind !== undefined)
      report(eventType, reportedPath(keys, String(value)), `looks like ${kind} but is not marked`);
    if (keyKind !== undefined)
      report(eventType, reportedPath(keys), `has keys that look like ${keyKind}; keys are never protected`);
  };

  function report(eventType: string, path: string, says: string): void {
    const id = `${eventType} ${path} ${says}`;
    if (reported.has(id) || reported.size >= maxReportedPaths) return;
    reported.add(id);
    logger.warn(`personal data? ${path} of ${eventType} ${says}`);
    if (reported.size === maxReportedPaths)
      logger.warn(`personal data? ${maxReportedPaths} paths reported; svc stops here`);
  }
}

/**
 * Hides a key that is part of the value: `alice` of `alice@example.com` is a person's name. The same for a key that is personal
 * data in Base64 or hexadecimal.
 */
function reportedPath(keys: readonly Step[], value = ''): string {
  const folded = value.toLowerCase();
  const isInValue = (text: string) => text.length >= shortestName && folded.includes(text.toLowerCase());
  const isName = (key: string) =>
    isInValue(key) ||
    decoded(key).some((text) => isInValue(text) || personalDataIn(text, 'string') !== undefined);
  let path = '';
  for (const key of keys) {
    if (key === element) path += '[*]';
    else path += `${path === '' ? '' : '.'}${nameLike.test(key) && !isName(key) ? key : '*'}`;
  }
  return path === '' ? 'value' : path;
}

const shortestName = 3;

function personalDataInKey(key: Step | undefined): string | undefined {
  if (typeof key !== 'string') return undefined;
  for (const text of nameLike.test(key) ? decoded(key) : [key, ...decoded(key)]) {
    const kind = personalDataIn(text, 'string');
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** Longer keys are not decoded. */
const longestKey = 256;

function decoded(key: string): readonly string[] {
  return key.length > longestKey ? [] : readingsOf(key, () => {});
}

const emailForm = lazyPattern(
  String.raw`[^\s@<>,;:"'()]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}`,
  'u',
);
const international = /^\+\d[\d\s().-]{6,22}$/;
const national = /^(?:0\d{1,4}[\s./-]|\(\d{2,5}\)\s?|\d{3}[.-])\d{3,4}[\s.-]?\d{3,5}$/;
const digitsOnly = /^[2-6]\d{3}(?:[ -]?\d){9,15}$/;
const ibanForm = /^[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}$/;

function personalDataIn(value: string, type: string): string | undefined {
  const text = value.length > longestSearched ? value.slice(0, longestSearched) : value;
  if (digitsOnly.test(text) && isLuhn(text)) return 'a card number';
  if (type !== 'string' || text.length < 5) return undefined;
  if (text.includes('@') && emailForm().test(text)) return 'an e-mail address';
  if (ibanForm.test(text) && isIban(text)) return 'an IBAN';
  if (text.length <= 24 && (international.test(text) || national.test(text))) return 'a phone number';
  return undefined;
}

function isLuhn(text: string): boolean {
  const digits = text.replace(/\D/g, '');
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const doubled = index % 2 === 0 ? digit : digit * 2;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

function isIban(text: string): boolean {
  const bare = text.replaceAll(' ', '');
  let rest = 0;
  for (const character of bare.slice(4) + bare.slice(0, 4)) {
    for (const digit of String(Number.parseInt(character, 36))) rest = (rest * 10 + Number(digit)) % 97;
  }
  return rest === 1;
}

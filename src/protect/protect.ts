// protect/: from an envelope to an event that may leave the process.

import { isUtf8 } from 'node:buffer';
import { types } from 'node:util';
import type { Envelope } from '../envelope/envelope.ts';
import { isTooBig, maxBigIntBits } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { clock } from '../ground/clock.ts';
import { type ErrorCode, SvcError } from '../ground/errors.ts';
import { uuidForm } from '../ground/event-fields.ts';
import { lazyPattern } from '../ground/names.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import { logger } from '../observe/logger.ts';
import { type ClassMarks, classMarks, deadState, type PathState, type Policy } from './marks/policy.ts';
import { mask, strictest } from './mask.ts';
import { elementPath, memberPath, NativeValue } from './own-text.ts';
import type { SealedField, Sealer } from './sealer.ts';

declare const protectedMark: unique symbol;

/** An envelope that may leave the process. Only a protector makes one, and serializers accept nothing else. */
export interface ProtectedEnvelope extends Omit<Envelope, 'payload'> {
  readonly payload: Readonly<Record<string, unknown>>;
  /** The ciphertexts and hashes in it. Serializers mark all other texts that look like one: see `own-text.ts`. */
  readonly sealed: readonly string[];
  readonly [protectedMark]: true;
}

/**
 * The only way from an envelope to something that can be serialized. Fails closed: if a value cannot be represented or
 * protected safely, it throws an `SvcError` that names no value, and the event is refused. A payload that is not an object
 * becomes `{ "value": … }`.
 * @param clearTexts texts that leave in clear beside the payload, such as the record key. The event is refused if one of them
 * is or holds a protected value.
 */
export type Protect = (envelope: Envelope, clearTexts?: readonly ClearText[]) => ProtectedEnvelope;

interface ProtectorOptions {
  /** The rules of an event type. Called once per event. */
  readonly policyOf: (eventType: string) => Policy;
  readonly sealer: Sealer;
  /** `svc.pii.detect: report`: warns of unmarked values that look like personal data. Default: false. */
  readonly detects?: boolean;
  /** Called for marked fields that hold objects whose text only their class can read. */
  readonly onUnreadable?: ((eventType: string, field: string) => void) | undefined;
  /** False: class marks have no effect. Default: true. */
  readonly usesMarks?: boolean;
  /** The event format has native bytes and BigInts, so they stay as they are. Default: false. */
  readonly keepsTypes?: boolean;
  /** If a key is temporarily unavailable, an `UnsealedError` is thrown, which can be sealed later. Default: false. */
  readonly defers?: boolean;
}

/** Called with one unmarked value. `keys` is its path from the root of the payload. */
type Detect = (eventType: string, value: string | number, keys: readonly Step[]) => void;

/** Protects payloads by the marks of their classes and by the rules of their event type. */
export function createProtector(options: ProtectorOptions): Protect {
  const { policyOf, detects, onUnreadable, keepsTypes, usesMarks = true } = options;
  const detect = detects ? createDetector() : undefined;
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
      usesMarks: usesMarks && classMarks.any(),
      sealed,
      onUnmarked: detect && ((value, keys) => detect(eventType, value, keys)),
      onUnreadable: onUnreadable && ((field) => onUnreadable(eventType, field)),
      keepsTypes,
      clearTexts,
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
export class UnsealedError extends SvcError {
  /** Returns the sealed event; throws the same reason while the key is unavailable. */
  readonly seal: () => ProtectedEnvelope;

  constructor({ code, message, name }: SvcError, seal: () => ProtectedEnvelope) {
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
const maxDepth = 64;

/**
 * A payload as JSON can carry it without silent loss, its marked values protected. `Map` becomes an object, `Set` an array,
 * `Date` ISO text, `BigInt` text, bytes Base64; `toJSON` is honored. Everything is read once, into a copy, before anything is
 * decided: a getter or proxy could return something else the second time.
 * Throws `SVC_PROTECT_DEPTH_OR_CYCLE`, `SVC_PROTECT_TOO_LARGE`, `SVC_PROTECT_READ_ERROR` (a getter, `toJSON` or proxy threw),
 * `SVC_PROTECT_UNSUPPORTED_TYPE` (such as errors and promises, whose JSON is empty or unsafe), and the errors of the sealer.
 */
function walkPayload(payload: unknown, rules: WalkRules): unknown {
  const budget = new Budget();
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
  const marks = walk.usesMarks ? classMarks.of(prototype) : null;
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
  const own = walk.usesMarks ? classMarks.of(prototype) : null;
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
}

interface Walk extends Omit<WalkRules, 'clearTexts'> {
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
function createDetector(): Detect {
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

// The parts of an object that can be read, and those that may hold a protected text.

interface Contents {
  /** Values, keys of maps, the result of `toJSON`, and possible text forms. */
  readonly parts: readonly unknown[];
  /** Values inside an object that has its own `toJSON`. */
  readonly inner: readonly unknown[];
  /** False: the object may hold a text that is in neither, such as that of a private field. */
  readonly isWhole: boolean;
}

/** Longer binary data is not searched as text. */
const maxSearchedBytes = 65_536;
const nothingKnown: Contents = { parts: [], inner: [], isWhole: false };

/** Everything that can be read from an object. `isWhole` is false if a part cannot be read. */
function contentsOf(value: object, budget: Budget): Contents {
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
const maxOthers = 500;
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
function leftAfter(object: object, max: number, levels: number): number {
  if (levels === 0) return -1;
  let left = max;
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
  if (classMarks.of(prototype) !== null || !hasToJson(value) || !isReadByKeys(value)) return -1;
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
      const marks = classMarks.of(prototype);
      if (marks !== null) {
        found.push([value, marks]);
        if (isOther) leadsToNone = false;
      }
      if (types.isDate(value) || types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) continue;
      const isNextOther = isOther || !(builtInPrototypes.has(prototype) || marks !== null || isTold(value));
      if (withoutMarks.has(value) || (isNextOther && others.size === maxOthers)) continue;
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
  builtInPrototypes.has(attempt(() => Object.getPrototypeOf(value) as object | null) ?? null) ||
  isTold(value);

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
function textsOfList(list: readonly unknown[]): readonly string[] {
  if (list.length < 2 || list.length > maxSearchedBytes) return [];
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
  if (!isOfBytes || value.byteLength > maxSearchedBytes) return nothingKnown;
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
    for (const key of Reflect.ownKeys(level).slice(0, maxGetters)) {
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

const maxGetters = 100;

const dataClasses = new WeakMap<object, boolean>();
const builtInPrototypes = new Set<object | null>([
  ...[null, Object.prototype, Array.prototype, Map.prototype, Set.prototype, Date.prototype],
]);
/** Private fields, and an instance that is passed elsewhere, such as to a WeakMap that keeps its text. */
const keepsElsewhere = /#[A-Za-z_$\u0080-\uffff]|\baccessor\s|[(,]\s*this\s*[,)]|\[native code\]/;
/** The compiled form of field decorators. */
const initializers = /__runInitializers\(\s*(?:\w+,\s*\d+,\s*)?this\b/g;

/** Whether instances hold their properties and nothing else: the class has no methods, getters or private fields. */
function isDataClass(prototype: object | null): boolean {
  if (prototype === null || builtInPrototypes.has(prototype)) return true;
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
function listOfSet(set: Iterable<unknown>, { left }: Budget): unknown[] {
  const list: unknown[] = [];
  for (const value of set) {
    if (list.length === left) throw tooLarge();
    list.push(value);
  }
  return list;
}

/** A copy of the own properties, read once. Engines cache the keys of small objects, so counting them first is free. */
function copyOf(object: Record<string, unknown>, { left }: Budget): Record<string, unknown> {
  if (countKeys(object, left) > left) throw tooLarge();
  return { ...object };
}

/** The number of keys, at most `most` + 1. Copying an object of millions of keys takes seconds, counting them less. */
function countKeys(object: object, max: number): number {
  let count = 0;
  for (const _ in object) if (++count > max) break;
  return count;
}

/**
 * The marks of a class with its own `toJSON`. They apply to keys of the same name anywhere in its JSON, and to the marked
 * values under any name.
 */
interface MarkedValues {
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
function markedValuesOf(
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
      const value = attempt(() => classMarks.read(of, field, rule));
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

interface HasToJson {
  toJSON(key: string): unknown;
}

function hasToJson(value: object): value is HasToJson {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

// What leaves in clear beside the payload: the record key and headers.

/**
 * A clear text of this length must not be or hold a protected value. `anywhere`: also between letters and digits. Shorter ones
 * match by chance. An expression that reads a marked field is refused, whatever its value.
 */
const shortestShown = { text: 5, number: 8, anywhere: 10 };
const number = /^-?\d+(?:\.\d+)?$/;
/** NFKC composes at most this many characters into one. */
const maxComposed = 4;

export interface ClearText {
  readonly of: 'key' | 'header';
  readonly text: string;
}

const refusals = {
  key: ['SVC_PROTECT_KEY_IN_CLEAR', 'the record key', 'another key'],
  header: ['SVC_PROTECT_HEADER_IN_CLEAR', 'a header', 'another one'],
} as const;

/** Texts that leave in clear beside the payload. None of them may be or hold a protected value. */
class ClearTexts {
  readonly #texts: readonly ClearText[];
  readonly #budget: Budget;
  #folded: readonly FoldedText[] | undefined;
  #longest = 0;

  constructor(texts: readonly ClearText[], budget: Budget) {
    this.#texts = texts;
    this.#budget = budget;
  }

  /** Throws `SVC_PROTECT_KEY_IN_CLEAR` or `SVC_PROTECT_HEADER_IN_CLEAR` if one of the texts shows this value. */
  check(plain: string): void {
    this.#folded ??= this.#texts.flatMap(({ of, text }) =>
      this.#formsOf(text).map((each) => foldedOf(of, fold(each))),
    );
    if (this.#longest === 0) this.#longest = Math.max(1, ...this.#folded.map(({ text }) => text.length));
    if (plain.length > this.#longest * maxComposed) return;
    const folded = fold(plain);
    this.#compare(folded);
    if (this.#folded.some(({ letters }) => letters !== '')) this.#compareLetters(squeeze(folded));
    if (isIsoTime(plain)) for (const form of formsOfTime(plain)) this.#compare(form);
  }

  #formsOf(text: string): readonly string[] {
    if (isId(text)) return [text];
    return [text, ...readingsOf(text, (length) => this.#budget.spendReading(length))];
  }

  #compare(value: string): void {
    for (const { of, text } of this.#folded ?? []) if (shows(text, value)) throw shown(of);
  }

  #compareLetters(value: string): void {
    if (value.length < shortestShown.anywhere) return;
    for (const { of, letters } of this.#folded ?? []) if (letters.includes(value)) throw shown(of);
  }
}

/** Most keys are ids, and ids contain no escapes. */
const isId = (text: string): boolean => /^[A-Za-z]{0,20}[-_:.]?\d{0,20}$/.test(text) || uuidForm.test(text);

interface FoldedText extends ClearText {
  /** Its letters and digits. Empty for a UUID and for a text that is too short to match. */
  readonly letters: string;
}

function foldedOf(of: ClearText['of'], text: string): FoldedText {
  return {
    of,
    text,
    letters: text.length < shortestShown.anywhere || uuidForm.test(text) ? '' : squeeze(text),
  };
}

function shown(of: ClearText['of']): Error {
  const [code, what, instead] = refusals[of];
  return refusal(
    code,
    `${what} is or holds the value of a marked field, and would be published in clear: declare ${instead}`,
  );
}

function shows(text: string, value: string): boolean {
  if (value.length >= shortestShown.anywhere) return text.includes(value);
  if (value.length < (number.test(value) ? shortestShown.number : shortestShown.text)) return false;
  return holdsWord(text, value);
}

function isIsoTime(text: string): boolean {
  return text.length === 24 && text.charAt(10) === 'T' && text.endsWith('Z');
}

/** The day alone is added only for dates at midnight: any other day stands in many keys. */
function formsOfTime(text: string): string[] {
  const milliseconds = Date.parse(text);
  if (Number.isNaN(milliseconds)) return [];
  return text.endsWith('T00:00:00.000Z') ? [String(milliseconds), text.slice(0, 10)] : [String(milliseconds)];
}

/**
 * The same text for each spelling of a value: spellings differ in Unicode form, case, spaces and invisible characters. Upper
 * case, because a lower-case sigma depends on the next character.
 */
function fold(text: string): string {
  if (isAscii.test(text)) {
    const upper = text.toUpperCase().trim();
    return spaces.test(upper) ? upper.replace(/\s+/g, ' ') : upper;
  }
  const folded = text.normalize('NFKC').toUpperCase().trim();
  return odd().test(folded) ? folded.replace(unseen(), '').replace(/\s+/g, ' ').trim() : folded;
}

/** Letters and digits only: most spellings differ in separators, spaces, quotes and accents. */
function squeeze(folded: string): string {
  if (isAscii.test(folded)) return folded.replace(/[^A-Za-z0-9]+/g, '');
  return folded.normalize('NFKD').replace(separators(), '');
}

// Nearly all texts are ASCII and need no Unicode tables.
const isAscii = /^[\0-\x7f]*$/;
const spaces = /\s\s/;
const odd = lazyPattern(String.raw`\p{Cf}|\s\s`, 'u');
const unseen = lazyPattern(String.raw`\p{Cf}`, 'gu');
const separators = lazyPattern(String.raw`[^\p{L}\p{N}]+`, 'gu');

const letterOrDigit = lazyPattern(String.raw`[\p{L}\p{N}]`, 'u');

/** Whether `part` stands in `text` with no letter or digit beside it. */
function holdsWord(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!isInWord(text, at - 1) && !isInWord(text, at + part.length)) return true;
  }
  return false;
}

function isInWord(text: string, at: number): boolean {
  return at >= 0 && at < text.length && letterOrDigit().test(text.charAt(at));
}

/** Nested encodings, such as JSON in a URL in JSON. */
const maxLevels = 8;
const maxReadings = 48;
const base64Run = /[A-Za-z0-9+/_-]{11,}={0,2}/g;
const hexRun = /(?:0x|\\x)?[0-9a-f]{2}(?:[\s:,-]{0,2}(?:0x|\\x)?[0-9a-f]{2}){4,}/gi;
const mayBeEscaped =
  /[\\%&+=]|\d{2}, ?\d{2}|''|""|[A-Za-z0-9+/_-]{11}|[0-9a-f]{2}[\s:,-]{1,2}(?:0x)?[0-9a-f]{2}[\s:,-]/i;

/**
 * The decoded readings of a text that is or holds JSON, a URL, HTML, CSS, CSV, SQL, Base64 or hexadecimal: `O\"Brien`, `a%40b`,
 * `a&#64;b`, `O''Brien`. Empty if nothing is encoded. `spend` gets the length of each reading and throws if it is too much for
 * one event.
 */
function readingsOf(text: string, spend: (length: number) => void): readonly string[] {
  if (!mayBeEscaped.test(text)) return [];
  const readings = new Set<string>();
  let level = [text];
  for (let depth = 0; depth < maxLevels && level.length > 0; depth++) {
    const next: string[] = [];
    for (const each of level) {
      for (const [sign, decode] of decoders) {
        if (!sign.test(each)) continue;
        const reading = decode(each);
        if (reading === each || reading === text || readings.has(reading)) continue;
        if (readings.size === maxReadings) return [...readings];
        spend(reading.length);
        readings.add(reading);
        next.push(reading);
      }
    }
    level = next;
  }
  return [...readings];
}

const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };
/** Code points from 160 on. */
const latin =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest ' +
  'agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml times oslash ugrave uacute ucirc uuml yacute thorn szlig';
/** HTML has upper-case and lower-case names; the comparison ignores case. */
const latinNames = latin.split(' ');
const entities: Readonly<Record<string, string>> = {
  ...Object.fromEntries(latinNames.map((name, index) => [name, String.fromCharCode(160 + index)])),
  ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' },
  ...{ commat: '@', period: '.', plus: '+', colon: ':', sol: '/', lowbar: '_', num: '#' },
};

function unescapeJson(text: string): string {
  return text.replace(
    /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{2,3})|([^ux]))/gi,
    (whole, braced?: string, four?: string, two?: string, octal?: string, other?: string) => {
      const code = braced ?? four ?? two;
      if (code !== undefined) return characterOf(Number.parseInt(code, 16)) ?? whole;
      if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
      return controls[other ?? ''] ?? other ?? whole;
    },
  );
}

function unescapeUrl(text: string): string {
  return text
    .replace(/%u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/(?:%[0-9a-f]{2})+/gi, (escaped) => {
      const bytes = Buffer.from(escaped.replaceAll('%', ''), 'hex');
      return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1');
    });
}

function unescapeCss(text: string): string {
  return text.replace(
    /\\([0-9a-f]{1,6})\s?/gi,
    (whole, code: string) => characterOf(Number.parseInt(code, 16)) ?? whole,
  );
}

/** Quotes of CSV, SQL and shells. */
function unquote(text: string): string {
  return text.replaceAll("'\\''", "'").replace(/(['"])\1/g, '$1');
}

function unquoteMail(text: string): string {
  return text.replace(/(?:=[0-9A-F]{2})+/g, (escaped) => {
    const bytes = Buffer.from(escaped.replaceAll('=', ''), 'hex');
    return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1');
  });
}

/** Code points or bytes as numbers, as in the JSON of a buffer. */
function decodeNumbers(text: string): string {
  return text.replace(/\b\d{2,3}(?:, ?\d{2,3}){3,}\b/g, (run) => {
    const numbers = run.split(',').map(Number);
    return (numbers.every((each) => each < 256) ? textIn(Buffer.from(numbers)) : undefined) ?? run;
  });
}

/** Base64 may contain line breaks. */
function unwrap(text: string): string {
  return text.replace(/(?<=[A-Za-z0-9+/]{40})\r?\n/g, '');
}

function decodeBase64(text: string): string {
  return text.replace(base64Run, (run) => textIn(Buffer.from(run, 'base64')) ?? run);
}

function decodeHex(text: string): string {
  return text.replace(hexRun, (run) => {
    const digits = run.replace(/0x|\\x|[^0-9a-f]/gi, '');
    return textIn(Buffer.from(digits, 'hex')) ?? run;
  });
}

/** `undefined` for bytes that are not text: most matches of the Base64 pattern are something else. */
function textIn(bytes: Buffer): string | undefined {
  const isWide = bytes.length % 2 === 0 && bytes.length > 3 && bytes[1] === 0 && bytes[3] === 0;
  if (!isWide && !isUtf8(bytes)) return undefined;
  const text = bytes.toString(isWide ? 'utf16le' : 'utf8');
  return isShown().test(text) ? text : undefined;
}
const isShown = lazyPattern(String.raw`^[^\p{Cc}\p{Cn}\p{Co}]*(?:[\r\n\t][^\p{Cc}\p{Cn}\p{Co}]*)*$`, 'u');

function unescapeForm(text: string): string {
  return unescapeUrl(text.replaceAll('+', ' '));
}

function unescapeHtml(text: string): string {
  return text.replace(
    /&(?:#0*(\d{1,7})|#x0*([0-9a-f]{1,6})|([a-z]{2,6}\d{0,2}));?/gi,
    (whole, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) return entities[name.toLowerCase()] ?? whole;
      return characterOf(decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)) ?? whole;
    },
  );
}

function characterOf(code: number): string | undefined {
  return code <= 0x10_ffff ? String.fromCodePoint(code) : undefined;
}

/** `sign` tells cheaply whether there is something to decode. */
const decoders: readonly (readonly [sign: RegExp, decode: (text: string) => string])[] = [
  ...([
    [/\\/, unescapeJson],
    [/%/, unescapeUrl],
    [/[%+]/, unescapeForm],
    [/&/, unescapeHtml],
  ] as const),
  ...([
    [/''|""|\\/, unquote],
    [/\n/, unwrap],
    [/[A-Za-z0-9+/_-]{11}/, decodeBase64],
  ] as const),
  ...([
    [/[0-9a-f]{2}[\s:,-]{0,2}(?:0x|\\x)?[0-9a-f]{2}/i, decodeHex],
    [/\d,/, decodeNumbers],
    [/\\/, unescapeCss],
    [/=/, unquoteMail],
  ] as const),
];

/** Shorter texts occur by chance in the Base64 of another text. */
const shortestEncoded = 8;
const mayBeEncoded = /[A-Za-z0-9+/_-]{10}/;

/** Whether a text may hold another one, of at least eight characters, in Base64 or hexadecimal. */
function mayHoldEncoded(text: string): boolean {
  return mayBeEncoded.test(text);
}

/**
 * The parts of a text that are the same in every Base64 or hexadecimal form of a longer text around it. Base64 has three
 * alignments, and the first and last characters depend on the surrounding text.
 */
function encodingsOf(text: string): readonly string[] {
  if (text.length < shortestEncoded) return [];
  const bytes = Buffer.from(text);
  const parts = [bytes.toString('hex')];
  for (let before = 0; before < 3; before++) {
    const base64 = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    const first = Math.ceil((before * 4) / 3);
    const end = Math.floor(((before + bytes.length) * 4) / 3);
    const part = base64.slice(first, end);
    parts.push(part);
    if (/[-_]/.test(part)) parts.push(part.replaceAll('-', '+').replaceAll('_', '/'));
  }
  return parts;
}

// How much of one event is read, protected and searched.

const maxNodes = 100_000;
/** Values of one event that are encrypted or hashed. Each takes 3 to 10 us, so more would block the process. */
const maxSealed = 10_000;
/** UTF-16 units of one event: `before` is protected or searched for marked values; `after` is the result. */
const maxText = { before: 4_194_304, after: 8_388_608 };
/** Bytes of typed arrays and buffers, which are published as Base64. */
const maxRawBytes = 16_777_216;
/** Counted from the first look at the clock. Small events never reach it. */
const maxTimeMs = 2_000;
/** Reading the clock takes as long as reading several values. */
const nodesBetweenLooks = 128;

/** The limits of one event. Each method throws when its limit is exceeded. */
class Budget {
  nodes = 0;
  private lookAt = nodesBetweenLooks;
  private startedAt: number | undefined;
  private protected = 0;
  private sealed = 0;
  private text = 0;
  private result = 0;
  private rawBytes = 0;

  spend(nodes: number): void {
    this.nodes += nodes;
    if (this.nodes < this.lookAt) return;
    if (this.nodes > maxNodes) throw tooLarge();
    this.lookAt = this.nodes + nodesBetweenLooks;
    this.look();
  }

  get left(): number {
    return maxNodes - this.nodes;
  }

  /** For a text that is protected or searched. */
  spendText(length: number): void {
    this.text += length;
    if (this.text > maxText.before)
      throw exceeded(`protecting the event takes more than ${maxText.before} characters of marked values`);
    if (++this.protected % nodesBetweenLooks === 0) this.look();
  }

  /** For a decoded text. Decoding a long text is slow, so the clock is read each time. */
  spendReading(length: number): void {
    this.spendText(length);
    this.look();
  }

  spendSeal(): void {
    if (++this.sealed > maxSealed)
      throw exceeded(`the event has more than ${maxSealed} values to encrypt or hash`);
  }

  spendResult(length: number): void {
    this.result += length;
    if (this.result > maxText.after)
      throw exceeded(`the encrypted values of the event take more than ${maxText.after} characters`);
  }

  spendRawBytes(length: number): void {
    this.rawBytes += length;
    if (this.rawBytes > maxRawBytes)
      throw refusal(
        'SVC_PROTECT_TOO_LARGE',
        `the payload holds more than ${maxRawBytes} bytes of binary data`,
      );
  }

  look(): void {
    const now = clock.monotonic();
    this.startedAt ??= now;
    if (now - this.startedAt > maxTimeMs)
      throw exceeded(`reading and protecting the payload takes longer than ${maxTimeMs} ms`);
  }
}

function tooLarge(): Error {
  return refusal('SVC_PROTECT_TOO_LARGE', `the payload holds more than ${maxNodes} values`);
}

/** The text of a number. Throws for a number that is slow to write. */
function textOfBigInt(value: bigint): string {
  if (!isTooBig(value)) return value.toString();
  throw refusal('SVC_PROTECT_TOO_LARGE', `the payload holds a BigInt of more than ${maxBigIntBits} bits`);
}

function exceeded(message: string): Error {
  return refusal('SVC_PROTECT_BUDGET', message);
}

const own = new WeakSet<SvcError>();

/** A reason to refuse an event. The message must not name a value or a key of the payload. */
function refusal(code: ErrorCode, message: string): SvcError {
  const error = new SvcError(code, message);
  own.add(error);
  return error;
}

/** Marks an error of the sealer as safe to show: its message names no value. */
function trusted(error: SvcError): SvcError {
  own.add(error);
  return error;
}

function isRefusal(error: unknown): error is SvcError {
  return error instanceof SvcError && own.has(error);
}

/** The error of reading a payload, safe to show. An `SvcError` that the application made itself is replaced. */
function asRefusal(error: unknown): SvcError {
  if (isRefusal(error)) return error;
  return refusal(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw while it was read',
  );
}

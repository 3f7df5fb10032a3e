import { type ClassMarks, hasMarks, marksOf } from './class-marks.ts';
import { hasToJson, kindOf, toBase64 } from './kind.ts';
import { element, excluded, leaf, type Place, type Walk, type WalkRules } from './leaf.ts';
import { objectOfMap } from './object-of-map.ts';
import { deadState } from './path-states.ts';
import { asRefusal, refusal } from './refusal.ts';
import { type MarkedValues, markedValuesOf } from './to-json.ts';

export type { WalkRules } from './leaf.ts';

/** Objects nested deeper than this are refused; a cycle is found by it as well. */
export const maxDepth = 64;
/** Payloads of more values than this are refused. */
export const maxNodes = 100_000;

/**
 * A payload as JSON can carry it without losing anything in silence, its marked values protected: `Map` becomes an object, `Set`
 * an array, `Date` ISO text, `BigInt` text, bytes Base64; `toJSON` is honoured. What needs no change is handed back as it is, not
 * copied; a value under a rule is read once and always copied.
 *
 * @throws SvcError with a code and no value: `SVC_PROTECT_DEPTH_OR_CYCLE`, `SVC_PROTECT_TOO_LARGE`, `SVC_PROTECT_READ_ERROR`
 * (a getter, `toJSON` or proxy threw), `SVC_PROTECT_UNSUPPORTED_TYPE` (errors, promises and others whose JSON is empty or
 * unsafe), and the errors of the sealer.
 */
export function walkPayload(payload: unknown, rules: WalkRules): unknown {
  const walk: Walk = {
    eventType: rules.eventType,
    policy: rules.policy,
    sealer: rules.sealer,
    onUnmarked: rules.onUnmarked,
    key: rules.key,
    nodes: 0,
    keys: [],
    usesMarks: rules.usesMarks && hasMarks(),
    isQuick: rules.onUnmarked === undefined && !isPolluted(),
  };
  try {
    const place = rootPlace(payload, walk);
    if (place.rule?.strategy === 'EXCLUDE') return undefined;
    const result = visit(payload, 0, walk, place);
    return result === excluded ? undefined : result;
  } catch (error) {
    throw asRefusal(error);
  }
}

/** Whether somebody has put something on the prototype of all objects, where a `for … in` would find it. */
function isPolluted(): boolean {
  for (const _ in Object.prototype) return true;
  return false;
}

/** What is no object with keys is published as `{ "value": … }`. */
function rootPlace(payload: unknown, walk: Walk): Place {
  const { root, valueRoot } = walk.policy;
  if (root === valueRoot) return root;
  return typeof payload === 'object' && payload !== null && hasKeys(payload) ? root : valueRoot;
}

function hasKeys(payload: object): boolean {
  const kind = kindOf(payload, Object.getPrototypeOf(payload));
  return kind === 'plain' || kind === 'map';
}

function visit(value: unknown, depth: number, walk: Walk, place: Place): unknown {
  if (typeof value !== 'object' || value === null) return leaf(value, depth, walk, place);
  if (depth > maxDepth) {
    throw refusal(
      'SVC_PROTECT_DEPTH_OR_CYCLE',
      `the payload is nested deeper than ${maxDepth} levels or refers to itself`,
    );
  }
  const prototype = Object.getPrototypeOf(value) as object | null;
  switch (kindOf(value, prototype)) {
    case 'plain': {
      const marks = walk.usesMarks ? marksOf(prototype) : null;
      if (hasToJson(value)) return visitToJson(value, depth, walk, place, marks);
      if (place === deadState && marks === null)
        return visitUnnamed(value as Record<string, unknown>, depth, walk, deadState, deadState);
      return visitObject(value as Record<string, unknown>, depth, walk, place, marks, false);
    }
    case 'array':
      if (hasToJson(value)) return visitToJson(value, depth, walk, place, null);
      return visitArray(value as unknown[], depth, walk, place);
    case 'date':
      if (Number.isNaN((value as Date).getTime())) return null;
      return leaf((value as Date).toISOString(), depth, walk, place);
    case 'map':
      return visitObject(objectOfMap(value as Map<unknown, unknown>), depth, walk, place, null, false);
    case 'set':
      return visitArray([...(value as Set<unknown>)], depth, walk, place);
    case 'bytes':
      return leaf(toBase64(value), depth, walk, place);
    case 'primitive wrapper':
      return visit((value as { valueOf(): unknown }).valueOf(), depth, walk, place);
    case 'unsupported':
      throw refusal(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds an Error, Promise, RegExp, WeakMap or similar object, which has no JSON form',
      );
  }
}

function count(walk: Walk, nodes: number): void {
  walk.nodes += nodes;
  if (walk.nodes > maxNodes)
    throw refusal('SVC_PROTECT_TOO_LARGE', `the payload holds more than ${maxNodes} values`);
}

function visitObject(
  object: Record<string, unknown>,
  depth: number,
  walk: Walk,
  place: Place,
  marks: ClassMarks | null,
  mustCopy: boolean,
): unknown {
  if (marks === null && !mustCopy && place.rule === undefined && place.json === undefined) {
    const { state } = place;
    if (state === deadState) return visitUnnamed(object, depth, walk, deadState, place);
    if (state.isOnTheWay(object)) return visitUnnamed(object, depth, walk, state.other(), place);
  }
  return visitCopy(object, depth, walk, place, marks);
}

function visitCopy(
  object: Record<string, unknown>,
  depth: number,
  walk: Walk,
  place: Place,
  marks: ClassMarks | null,
): unknown {
  // Read once, before anything is decided: a getter could give another value, or add a field, when asked again.
  const copy: Record<string, unknown> = { ...object };
  let nodes = 0;
  for (const key in copy) {
    if (!walk.isQuick && !Object.hasOwn(copy, key)) continue;
    nodes++;
    const before = copy[key];
    const next = placeOf(key, place, marks);
    if (next === deadState && walk.isQuick && isPlainLeaf(before)) continue;
    let after: unknown;
    const isObject = typeof before === 'object' && before !== null;
    // Nothing of an object that is left out is read.
    if (typeof before !== 'function' && !(isObject && next.rule?.strategy === 'EXCLUDE')) {
      walk.keys[depth] = key;
      after = isObject ? visit(before, depth + 1, walk, next) : leaf(before, depth + 1, walk, next);
      if (after === excluded) after = undefined;
    }
    if (after !== before) copy[key] = after;
  }
  count(walk, nodes);
  return copy;
}

function isPlainLeaf(value: unknown): boolean {
  const type = typeof value;
  return type === 'string' || type === 'number' || type === 'boolean' || value === null;
}

/**
 * An object of which no rule names a key, so that all its values stand at `next`. Copied only where something in it has to change.
 * Engines read the fields of an object in a `for … in` several times faster than by a list of its keys. Where a getter has added
 * a field meanwhile, which nobody has looked at, the whole is read again.
 */
function visitUnnamed(
  object: Record<string, unknown>,
  depth: number,
  walk: Walk,
  next: Place,
  place: Place,
): unknown {
  const prototype = Object.getPrototypeOf(object) as unknown;
  if (!walk.isQuick || (prototype !== Object.prototype && prototype !== null))
    return visitByKeys(object, depth, walk, next);
  let nodes = 0;
  let copy: Record<string, unknown> | undefined;
  for (const key in object) {
    nodes++;
    const before = copy === undefined ? object[key] : copy[key];
    const isLeaf = typeof before !== 'object' || before === null;
    if (isLeaf && typeof before !== 'bigint') continue;
    walk.keys[depth] = key;
    const after = isLeaf ? leaf(before, depth + 1, walk, next) : visit(before, depth + 1, walk, next);
    if (after === before) continue;
    copy ??= { ...object };
    copy[key] = after;
  }
  count(walk, nodes);
  const result = copy ?? object;
  // Of interest where something can be marked.
  const isWhole = copy === undefined && !walk.usesMarks && next === deadState;
  if (isWhole || Object.keys(result).length === nodes) return result;
  return visitCopy(object, depth, walk, place, null);
}

function visitByKeys(object: Record<string, unknown>, depth: number, walk: Walk, next: Place): unknown {
  const keys = Object.keys(object);
  count(walk, keys.length);
  let copy: Record<string, unknown> | undefined;
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] as string;
    const before = (copy ?? object)[key];
    const isLeaf = typeof before !== 'object' || before === null;
    if (isLeaf && typeof before !== 'bigint' && walk.isQuick) continue;
    walk.keys[depth] = key;
    const after = isLeaf ? leaf(before, depth + 1, walk, next) : visit(before, depth + 1, walk, next);
    if (after === before) continue;
    copy ??= { ...object };
    copy[key] = after;
  }
  const result = copy ?? object;
  // A getter may have added a field, which nobody has looked at: of interest where something can be marked.
  const isWhole = (copy === undefined && !walk.usesMarks && next === deadState) || hasOnly(result, keys);
  return isWhole ? result : Object.fromEntries(keys.map((key) => [key, result[key]]));
}

function hasOnly(object: object, keys: readonly string[]): boolean {
  return Object.keys(object).length === keys.length;
}

/** Where the value of a key stands. The rules of paths go before marks, and both before the rule of the whole object. */
function placeOf(key: string, { state, rule, json }: Place, marks: ClassMarks | null): Place {
  const next = state === deadState ? deadState : state.next(key);
  if (marks === null && rule === undefined && json === undefined) return next;
  const own = next.rule ?? marks?.get(key) ?? json?.marks.get(key) ?? rule;
  return own === next.rule && json === undefined ? next : { state: next, rule: own, json };
}

function visitArray(array: readonly unknown[], depth: number, walk: Walk, place: Place): unknown {
  count(walk, array.length);
  const next = elementPlace(place);
  const { rule } = next;
  if (rule?.strategy === 'EXCLUDE') return [];
  let copy: unknown[] | undefined;
  walk.keys[depth] = element;
  for (let index = 0; index < array.length; index++) {
    const before = array[index];
    const after = visit(before, depth + 1, walk, next);
    if (copy === undefined && (rule !== undefined || !Object.is(after, before))) copy = array.slice(0, index);
    if (copy !== undefined && after !== excluded) copy.push(after);
  }
  return copy ?? array;
}

function elementPlace(place: Place): Place {
  if (place.state === deadState) return place;
  const state = place.state.element();
  if (place.rule === undefined && place.json === undefined) return state;
  return { state, rule: state.rule ?? place.rule, json: place.json };
}

/** The result is copied, so that no second `toJSON` on it runs during serialization. */
function visitToJson(
  value: { toJSON(key: string): unknown },
  depth: number,
  walk: Walk,
  outer: Place,
  marks: ClassMarks | null,
): unknown {
  const result = value.toJSON('');
  if (result === value) {
    throw refusal('SVC_PROTECT_READ_ERROR', 'toJSON of an object in the payload returns the object itself');
  }
  const root = depth === 0 ? rootPlace(result, walk) : outer;
  const json = marks === null ? outer.json : markedValuesOf(value, marks, outer.json);
  const place = json === outer.json ? root : { ...root, json };
  if (place.rule?.strategy === 'EXCLUDE') return excluded;
  if (typeof result !== 'object' || result === null) {
    if (marks !== null && place.rule === undefined && hidesMarks(result, json)) {
      throw refusal(
        'SVC_PROTECT_TOJSON_HIDES_FIELDS',
        'toJSON of a class with marked fields returns a text in which they cannot be told apart',
      );
    }
    return typeof result === 'function' ? undefined : leaf(result, depth, walk, place);
  }
  const prototype = Object.getPrototypeOf(result) as object | null;
  if (kindOf(result, prototype) !== 'plain') return visit(result, depth, walk, place);
  const own = walk.usesMarks ? marksOf(prototype) : null;
  return visitObject(result as Record<string, unknown>, depth, walk, place, own ?? marks, true);
}

function hidesMarks(result: unknown, json: MarkedValues | undefined): boolean {
  if (typeof result !== 'string' && typeof result !== 'number' && typeof result !== 'bigint') return false;
  return json?.ruleOfValue(String(result)) === undefined;
}

import { types } from 'node:util';
import { SvcError } from '../errors.ts';

/** Objects nested deeper than this are refused; a cycle is found by it as well. */
export const maxDepth = 64;
/** Payloads of more values than this are refused. */
export const maxNodes = 100_000;

type Kind = 'plain' | 'array' | 'date' | 'map' | 'set' | 'bytes' | 'primitive wrapper' | 'unsupported';

interface Walk {
  nodes: number;
}

/**
 * A payload as JSON can carry it without losing anything in silence: `Map` becomes an object, `Set` an array, `Date` ISO text,
 * `BigInt` text, bytes Base64; `toJSON` is honoured. What needs no change is handed back as it is, not copied.
 *
 * @throws SvcError with a code and no value: `SVC_PROTECT_DEPTH_OR_CYCLE`, `SVC_PROTECT_TOO_LARGE`, `SVC_PROTECT_READ_ERROR`
 * (a getter, `toJSON` or proxy threw), `SVC_PROTECT_UNSUPPORTED_TYPE` (errors, promises and others whose JSON is empty or unsafe).
 */
export function normalize(value: unknown): unknown {
  try {
    return visit(value, 0, { nodes: 0 });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError(
      'SVC_PROTECT_READ_ERROR',
      'a getter, toJSON or proxy of the payload threw while it was read',
    );
  }
}

function visit(value: unknown, depth: number, walk: Walk): unknown {
  if (typeof value !== 'object') return typeof value === 'bigint' ? value.toString() : value;
  if (value === null) return null;
  if (depth > maxDepth) {
    throw new SvcError(
      'SVC_PROTECT_DEPTH_OR_CYCLE',
      `the payload is nested deeper than ${maxDepth} levels or refers to itself`,
    );
  }
  switch (kindOf(value)) {
    case 'plain':
      return typeof (value as { toJSON?: unknown }).toJSON === 'function'
        ? visitToJson(value as { toJSON(key: string): unknown }, depth, walk)
        : visitObject(value as Record<string, unknown>, depth, walk, false);
    case 'array':
      return visitArray(value as unknown[], depth, walk);
    case 'date':
      return Number.isNaN((value as Date).getTime()) ? null : (value as Date).toISOString();
    case 'map':
      return visitMap(value as Map<unknown, unknown>, depth, walk);
    case 'set':
      return visitArray([...(value as Set<unknown>)], depth, walk);
    case 'bytes':
      return toBase64(value);
    case 'primitive wrapper':
      return visit((value as { valueOf(): unknown }).valueOf(), depth, walk);
    case 'unsupported':
      throw new SvcError(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds an Error, Promise, RegExp, WeakMap or similar object, which has no JSON form',
      );
  }
}

function count(walk: Walk, nodes: number): void {
  walk.nodes += nodes;
  if (walk.nodes > maxNodes) {
    throw new SvcError('SVC_PROTECT_TOO_LARGE', `the payload holds more than ${maxNodes} values`);
  }
}

function visitObject(object: Record<string, unknown>, depth: number, walk: Walk, mustCopy: boolean): unknown {
  const keys = Object.keys(object);
  count(walk, keys.length);
  let copy: Record<string, unknown> | undefined = mustCopy ? copyUntil(object, keys, 0) : undefined;
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] as string;
    const before = object[key];
    const after = visit(before, depth + 1, walk);
    if (copy === undefined && !Object.is(after, before)) copy = copyUntil(object, keys, index);
    if (copy !== undefined && typeof after !== 'function') define(copy, key, after);
  }
  return copy ?? object;
}

function copyUntil(
  object: Record<string, unknown>,
  keys: readonly string[],
  end: number,
): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (let index = 0; index < end; index++) {
    const key = keys[index] as string;
    define(copy, key, object[key]);
  }
  return copy;
}

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

function visitArray(array: readonly unknown[], depth: number, walk: Walk): unknown {
  count(walk, array.length);
  let copy: unknown[] | undefined;
  for (let index = 0; index < array.length; index++) {
    const before = array[index];
    const after = visit(before, depth + 1, walk);
    if (copy === undefined && !Object.is(after, before)) copy = array.slice(0, index);
    if (copy !== undefined) copy.push(after);
  }
  return copy ?? array;
}

function visitMap(map: ReadonlyMap<unknown, unknown>, depth: number, walk: Walk): unknown {
  const object: Record<string, unknown> = {};
  for (const [key, value] of map) {
    if (typeof key === 'object' || typeof key === 'symbol' || typeof key === 'function') {
      throw new SvcError(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds a Map whose keys are objects, which has no JSON form',
      );
    }
    define(object, String(key), value);
  }
  return visitObject(object, depth, walk, false);
}

/** The result is copied, so that no second `toJSON` on it runs during serialization. */
function visitToJson(value: { toJSON(key: string): unknown }, depth: number, walk: Walk): unknown {
  const json = value.toJSON('');
  if (json === value) {
    throw new SvcError(
      'SVC_PROTECT_READ_ERROR',
      'toJSON of an object in the payload returns the object itself',
    );
  }
  const isObject = typeof json === 'object' && json !== null && kindOf(json) === 'plain';
  if (isObject) return visitObject(json as Record<string, unknown>, depth + 1, walk, true);
  return typeof json === 'function' ? undefined : visit(json, depth + 1, walk);
}

/** Prototypes of classes whose instances are walked like plain objects. */
const plainPrototypes = new WeakSet<object>();

function kindOf(value: object): Kind {
  if (Array.isArray(value)) return 'array';
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === null) return 'plain';
  if (plainPrototypes.has(prototype)) return 'plain';
  const kind = classify(value);
  if (kind === 'plain' && !isImpostor(value)) plainPrototypes.add(prototype);
  return kind;
}

/** `Object.create(Map.prototype)`: must not decide what real maps are taken for. */
function isImpostor(value: object): boolean {
  return value instanceof Map || value instanceof Set || value instanceof Date || value instanceof Uint8Array;
}

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
  return unsupported && typeof (value as { toJSON?: unknown }).toJSON !== 'function'
    ? 'unsupported'
    : 'plain';
}

function toBase64(value: object): string {
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  return Buffer.from(value as ArrayBuffer).toString('base64');
}

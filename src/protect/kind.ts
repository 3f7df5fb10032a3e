import { types } from 'node:util';

export type Kind = 'plain' | 'array' | 'date' | 'map' | 'set' | 'bytes' | 'primitive wrapper' | 'unsupported';

/** Prototypes of classes whose instances are walked like plain objects. */
const plainPrototypes = new WeakSet<object>();

/** How the walk reads an object. `prototype` is the object's own. */
export function kindOf(value: object, prototype: object | null): Kind {
  if (Array.isArray(value)) return 'array';
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
  return unsupported && !hasToJson(value) ? 'unsupported' : 'plain';
}

export function hasToJson(value: object): value is { toJSON(key: string): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

export function toBase64(value: object): string {
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  return Buffer.from(value as ArrayBuffer).toString('base64');
}

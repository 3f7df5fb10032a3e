import { types } from 'node:util';
import type { Budget } from './budget.ts';

export type Kind =
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
export function kindOf(value: object, prototype: object | null): Kind {
  if (Array.isArray(value)) return 'array';
  if (prototype === Object.prototype) return 'plain';
  if (prototype === null) return isRawJson(value) ? 'raw json' : 'plain';
  if (plainPrototypes.has(prototype)) return 'plain';
  const kind = classify(value);
  if (kind === 'plain' && isTypical(value)) plainPrototypes.add(prototype);
  return kind;
}

/**
 * Whether all objects with this prototype are plain ones. `Object.create(Map.prototype)` or an error with a `toJSON` of its own
 * must not decide what real maps and other errors are taken for.
 */
function isTypical(value: object): boolean {
  if (Reflect.get(value, Symbol.toStringTag) !== undefined) return false;
  if (types.isNativeError(value) || types.isRegExp(value)) return false;
  return !builtIn.some((type) => value instanceof type);
}

/** Those without a `Symbol.toStringTag` to know their heirs by. */
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

interface HasToJson {
  toJSON(key: string): unknown;
}

export function hasToJson(value: object): value is HasToJson {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

/** An application may give all numbers of this kind a `toJSON`, as JSON has none for them. */
export function isBigIntWithToJson(value: unknown): value is HasToJson {
  return typeof value === 'bigint' && hasToJson(BigInt.prototype);
}

const { toJSON: dateToJson, toISOString } = Date.prototype;
const bufferToJson: unknown = Buffer.prototype.toJSON;

/** Whether its own `toJSON` says what is published. Those that Node gives `Date` and `Buffer` say no more than the walk does. */
export function decidesItsJson(value: object, kind: Kind): value is HasToJson {
  if (!hasToJson(value)) return false;
  if (kind === 'date') return value.toJSON !== dateToJson || (value as Date).toISOString !== toISOString;
  return kind !== 'bytes' || value.toJSON !== bufferToJson;
}

/** What is published of an object without parts. Classes may change what a wrapper converts to, as for JSON.stringify. */
export function primitiveOf(value: object, kind: Kind, budget: Budget): unknown {
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

/** Of raw JSON, whether it is a text. */
export function isRawText(value: object): boolean {
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

import { types } from 'node:util';
import { NativeValue } from '../../protect/native-value.ts';
import { markOwnText } from '../../protect/own-text.ts';

const mostLevels = 64;

/** Returned if only `JSON.parse(JSON.stringify(value))` itself can tell its result. */
export const notPlain = Symbol('not plain');

/**
 * The payload as after a round trip through JSON, without making it; bytes (Buffer) and BigInt stay. Returns the value itself, or a
 * copy if JSON changes parts.
 *
 * Returns `notPlain` for `toJSON`, boxed values, NaN and Infinity, array items without JSON, and texts that look like svc's
 * ciphertexts, except those in `sealed`.
 */
export function plainJson(value: unknown, sealed: readonly string[], level = 0): unknown {
  switch (typeof value) {
    case 'string':
      return mayBeOurs(value) && markOwnText(value) !== value && !sealed.includes(value) ? notPlain : value;
    case 'number':
      // JSON has no negative zero.
      return Number.isFinite(value) ? value + 0 : notPlain;
    case 'boolean':
      return value;
    case 'object':
      if (value === null) return null;
      break;
    default:
      return notPlain;
  }
  if (value instanceof NativeValue) return value.value;
  if (level > mostLevels || (value as { toJSON?: unknown }).toJSON !== undefined) return notPlain;
  return Array.isArray(value) ? listOf(value, sealed, level) : fieldsOf(value, sealed, level);
}

/** Compares the start with `ENC(`, `HASH(`, or a backslash before either. Most texts need no further check. */
function mayBeOurs(text: string): boolean {
  const first = text.charCodeAt(0);
  return first === 0x45 || first === 0x48 || first === 0x5c;
}

/** Copied from the first item that JSON changes. */
function listOf(list: readonly unknown[], sealed: readonly string[], level: number): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < list.length; index++) {
    const given = list[index];
    const item = plainJson(given, sealed, level + 1);
    if (item === notPlain) return notPlain;
    if (copy === undefined && !Object.is(item, given)) copy = list.slice(0, index);
    copy?.push(item);
  }
  return copy ?? list;
}

function fieldsOf(object: object, sealed: readonly string[], level: number): unknown {
  const isBare = Object.getPrototypeOf(object) === Object.prototype;
  if (!isBare && types.isBoxedPrimitive(object)) return notPlain;
  const fields = object as Readonly<Record<string, unknown>>;
  const names = Object.keys(object);
  // A schema may require fields that an object inherits from its class.
  let copy: Record<string, unknown> | undefined = isBare ? undefined : {};
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    const field = fields[name];
    const plain = field === undefined ? undefined : plainJson(field, sealed, level + 1);
    // Assigning `__proto__` creates no field. An object with `rawJSON` may be text that JSON copies verbatim.
    if (plain === notPlain || name === '__proto__' || name === 'rawJSON') return notPlain;
    if (copy === undefined && (plain === undefined || !Object.is(plain, field))) {
      copy = {};
      for (const before of names.slice(0, index)) copy[before] = fields[before];
    }
    if (copy !== undefined && plain !== undefined) copy[name] = plain;
  }
  return copy ?? object;
}

/**
 * A payload as JSON from which a typed schema can be filled. Bytes are `{"type":"Buffer","data":[…]}`, as in Node. Other values
 * that JSON lacks are `{"type":"BigInt","data":"1"}` or `{"type":"Number","data":"NaN"}`. `undefined`: JSON omits the whole
 * payload.
 */
export function typedJson(payload: unknown, sealed: readonly string[]): string | undefined {
  const ours = new Set(sealed);
  return JSON.stringify(payload, function (this: Record<string, unknown>, key: string, value: unknown) {
    const given = this[key];
    if (given instanceof NativeValue) {
      const { value: native } = given;
      return typeof native === 'bigint' ? { type: 'BigInt', data: String(native) } : { ...native.toJSON() };
    }
    if (typeof value === 'number' && !Number.isFinite(value)) return { type: 'Number', data: String(value) };
    return typeof value === 'string' && !ours.has(value) ? markOwnText(value) : value;
  });
}

import { types } from 'node:util';
import { markOwnText, NativeValue } from '../../protect/own-text.ts';

const mostLevels = 64;

/** What `JSON.parse(JSON.stringify(value))` is not known to give without doing it. */
export const notPlain = Symbol('not plain');

/**
 * A payload as its JSON has it, but for bytes (a Buffer) and BigInt, without writing and reading that: itself, or a copy where
 * JSON has anything else in it. `notPlain` for what JSON would change: by `toJSON`, boxed values, no numbers, what
 * it leaves out in an array, and texts that could be taken for a ciphertext of svc's, but for those of `sealed`.
 */
export function plainJson(value: unknown, sealed: readonly string[], level = 0): unknown {
  switch (typeof value) {
    case 'string':
      return mayBeOurs(value) && markOwnText(value) !== value && !sealed.includes(value) ? notPlain : value;
    case 'number':
      // Zero has no sign in JSON.
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

/** By the first character: `ENC(`, `HASH(`, or a backslash before either. Most texts need no closer look. */
function mayBeOurs(text: string): boolean {
  const first = text.charCodeAt(0);
  return first === 0x45 || first === 0x48 || first === 0x5c;
}

/** Copied from the first item on that is another one in JSON. */
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
  // A schema may name what the class of an object has.
  let copy: Record<string, unknown> | undefined = isBare ? undefined : {};
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    const field = fields[name];
    const plain = field === undefined ? undefined : plainJson(field, sealed, level + 1);
    // An assignment to the first name is none of a field; an object with the second may be text that JSON takes over as it is.
    if (plain === notPlain || name === '__proto__' || name === 'rawJSON') return notPlain;
    if (copy === undefined && (plain === undefined || !Object.is(plain, field))) {
      copy = {};
      for (const before of names.slice(0, index)) copy[before] = fields[before];
    }
    if (copy !== undefined && plain !== undefined) copy[name] = plain;
  }
  return copy ?? object;
}

/** As numbers beyond it are not exact, avsc's own limit, which is one less than that of JavaScript. */
const mostSafe = 2 ** 53 - 2;

/**
 * A payload as JSON that a typed schema can be filled from: bytes are `{"type":"Buffer","data":[…]}`, as Node writes them, and what else
 * JSON has not is `{"type":"BigInt","data":"1"}` or `{"type":"Number","data":"NaN"}`. `undefined` where nothing is left of it.
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

function dataOf(value: unknown, type: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const tagged = value as { readonly type?: unknown; readonly data?: unknown };
  return tagged.type === type ? tagged.data : undefined;
}

/** Of a Buffer, or of the form that its JSON has. */
export function bufferOf(value: unknown): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  const data = dataOf(value, 'Buffer');
  return Array.isArray(data) ? Buffer.from(data) : undefined;
}

/** A whole number: a number that is exact, a BigInt, or the form of one in JSON. */
export function wholeOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number')
    return Number.isInteger(value) && Math.abs(value) <= mostSafe ? value : undefined;
  if (typeof value === 'bigint') return value;
  const data = dataOf(value, 'BigInt');
  return typeof data === 'string' && /^-?\d{1,5000}$/.test(data) ? BigInt(data) : undefined;
}

/** A number, or the form that JSON has of one that is not finite. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  const data = dataOf(value, 'Number');
  return data === 'NaN' || data === 'Infinity' || data === '-Infinity' ? Number(data) : undefined;
}

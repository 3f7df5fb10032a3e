import { types } from 'node:util';
import { markOwnText } from '../../protect/own-text.ts';

const mostLevels = 64;

/** What `JSON.parse(JSON.stringify(value))` is not known to give without doing it. */
export const notPlain = Symbol('not plain');

/**
 * A payload as its JSON has it, without writing and reading that. `notPlain` for what JSON would change: by `toJSON`, boxed values, no
 * numbers, what it leaves out in an array, and texts that could be taken for a ciphertext of svc's, but for those of `sealed`.
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
  if (level > mostLevels || (value as { toJSON?: unknown }).toJSON !== undefined) return notPlain;
  return Array.isArray(value) ? listOf(value, sealed, level) : fieldsOf(value, sealed, level);
}

/** By the first character: `ENC(`, `HASH(`, or a backslash before either. Most texts need no closer look. */
function mayBeOurs(text: string): boolean {
  const first = text.charCodeAt(0);
  return first === 0x45 || first === 0x48 || first === 0x5c;
}

function listOf(list: readonly unknown[], sealed: readonly string[], level: number): unknown {
  const copy: unknown[] = [];
  for (let index = 0; index < list.length; index++) {
    const item = plainJson(list[index], sealed, level + 1);
    if (item === notPlain) return notPlain;
    copy.push(item);
  }
  return copy;
}

function fieldsOf(object: object, sealed: readonly string[], level: number): unknown {
  if (types.isBoxedPrimitive(object)) return notPlain;
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(object)) {
    const field = (object as Readonly<Record<string, unknown>>)[name];
    if (field === undefined) continue;
    const plain = plainJson(field, sealed, level + 1);
    // An assignment to the first name is none of a field; an object with the second may be text that JSON takes over as it is.
    if (plain === notPlain || name === '__proto__' || name === 'rawJSON') return notPlain;
    copy[name] = plain;
  }
  return copy;
}

import { types } from 'node:util';
import { nearestName } from './nearest-names.ts';

/**
 * Whether an object is one of names and values: a plain one, or an instance of a class of the application that shows its fields. Lists,
 * maps, dates and other objects of the language and of Node hold their values elsewhere, as do instances with private fields alone, so
 * that reading their properties would find nothing.
 */
export function isNamedValues(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  if (Object.prototype.toString.call(value) !== '[object Object]' || Symbol.iterator in value) return false;
  return isPlain(value) || Object.keys(value).length > 0;
}

/** Of any realm: tests run their code in one of its own. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Of the same, of a `Map`, and of the `Headers` of fetch, whosever they are. `undefined`: an object of another kind. */
export function entriesOf(value: unknown): [name: unknown, value: unknown][] | undefined {
  if (isNamedValues(value)) return Object.entries(value);
  if (types.isMap(value)) return [...value.entries()];
  const { entries } = (value ?? {}) as { entries?: () => Iterable<[unknown, unknown]> };
  const isHeaders = Object.prototype.toString.call(value) === '[object Headers]';
  return isHeaders && typeof entries === 'function' ? [...entries.call(value)] : undefined;
}

/** Longer ones, and others, are not repeated: what stands there may be data. */
const plainName = /^[A-Za-z_][\w-]{0,39}$/;

/**
 * What is wrong with options as a whole: they are no object of names and values, or have a name that is not among these. What callers
 * without types, and their spelling mistakes, hand over would be lost without a word.
 */
export function optionsProblem(given: unknown, names: readonly string[]): string | undefined {
  if (!isNamedValues(given)) return `the options must be ${plainObject}`;
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  return unknown === undefined ? undefined : unknownName('option', unknown, names);
}

/** Neither a list nor a `Map`, say, which are objects, too. */
export const plainObject = 'a plain object of names and values';

/** @param kind what has names here: `option` */
export function unknownName(kind: string, name: string, names: readonly string[]): string {
  if (!plainName.test(name)) return `there is an unknown ${kind}; there are ${names.join(', ')}`;
  const nearest = nearestName(name, names);
  return nearest === undefined
    ? `unknown ${kind} ${name}; there are ${names.join(', ')}`
    : `unknown ${kind} ${name}: did you mean ${nearest}?`;
}

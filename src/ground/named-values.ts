import { types } from 'node:util';

/**
 * Whether an object is one of names and values: a plain one, or an instance of a class of the application. Lists, maps, dates and other
 * objects of the language and of Node hold their values elsewhere, so that reading their properties would find nothing.
 */
export function isNamedValues(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return Object.prototype.toString.call(value) === '[object Object]' && !(Symbol.iterator in value);
}

/** Of the same, of a `Map`, and of the `Headers` of fetch, whosever they are. `undefined`: an object of another kind. */
export function entriesOf(value: unknown): [name: unknown, value: unknown][] | undefined {
  if (isNamedValues(value)) return Object.entries(value);
  if (types.isMap(value)) return [...value.entries()];
  const { entries } = (value ?? {}) as { entries?: () => Iterable<[unknown, unknown]> };
  const isHeaders = Object.prototype.toString.call(value) === '[object Headers]';
  return isHeaders && typeof entries === 'function' ? [...entries.call(value)] : undefined;
}

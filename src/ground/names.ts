import { types } from 'node:util';

/**
 * A regular expression that is made when it is first asked for. V8 parses a literal together with its file, even inside a function that
 * is never called, and one with a class of Unicode (`\\p{L}`) takes up to 0.4 ms of each start.
 */
export function lazyPattern(source: string, flags: string): () => RegExp {
  let pattern: RegExp | undefined;
  return () => {
    pattern ??= new RegExp(source, flags);
    return pattern;
  };
}

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

/** How near a name must be to be meant. */
interface Nearness {
  /** Edits at most. Default: two, or a third of the letters. */
  readonly limit?: number;
  /** How many names. Default: 3. */
  readonly count?: number;
  /** The beginning of a name is near, too, as `svc.broker.async`. */
  readonly withBeginnings?: boolean;
}

/** Longer ones are no mistyped names, and would take their time. */
const mostCharacters = 200;

/** The names that are likely meant by a wrong one, nearest first. */
export function nearestNames(wrong: string, names: Iterable<string>, nearness: Nearness = {}): string[] {
  const wanted = squash(wrong);
  // Every name of two letters is two letters away from every other one.
  const usual = Math.min(Math.max(2, Math.floor(wanted.length / 3)), wanted.length - 1);
  const { limit = usual, count = 3, withBeginnings = false } = nearness;
  return [...new Set(names)]
    .filter((name) => name !== wrong)
    .map((name) => ({ name, distance: howFar(wanted, squash(name), limit, withBeginnings) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, count)
    .map(({ name }) => name);
}

/** The option, variable or word that was most likely meant by a wrong one. */
export function nearestName(
  wrong: string,
  names: Iterable<string>,
  limit: number = Math.max(2.5, Math.floor(lastPart(squash(wrong)).length / 3)),
): string | undefined {
  return nearestNames(wrong, names, { limit, count: 1, withBeginnings: true })[0];
}

/** ` (did you mean a, b?)`, or nothing. */
export function didYouMean(wrong: string, names: Iterable<string>): string {
  const near = nearestNames(wrong, names);
  return near.length === 0 ? '' : ` (did you mean ${near.join(', ')}?)`;
}

function howFar(wanted: string, name: string, limit: number, withBeginnings: boolean): number {
  const last = lastPart(wanted);
  const isTooLong = Math.abs(wanted.length - name.length) > limit;
  const distance = isTooLong ? Number.POSITIVE_INFINITY : editDistance(wanted, name);
  // The right word in another place, as `svc.topic`, or `create` for `OrderService.create`.
  if (lastPart(name) === last) return Math.min(distance, 1.5);
  if (withBeginnings && last.length > 3 && name.startsWith(wanted)) return Math.min(distance, 2.5);
  return distance;
}

/** Spelling that people mix up: `bootstrap_servers`, `bootstrapServers`, `bootstrap-servers`. */
function squash(name: string): string {
  return name.slice(0, mostCharacters).toLowerCase().replace(/[-_]/g, '');
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

/** Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`. */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(before, j - 2) + 1);
      }
      row.push(cost);
    }
    before = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const ascii = /^[\x00-\x7f]*$/;

/** The name, and those that it is in a normal form of Unicode: two names for JavaScript and for file systems, and one for whoever writes it. */
export function inEachForm(name: string): string[] {
  return ascii.test(name) ? [name] : [...new Set([name, name.normalize('NFC'), name.normalize('NFD')])];
}

export function isSameName(one: string, other: string): boolean {
  return one === other || one.normalize('NFC') === other.normalize('NFC');
}

/**
 * A regular expression that is created at its first use. V8 parses a literal with its file, even in a function that is never called. One
 * with a Unicode class (`\p{L}`) costs each start up to 0.4 ms.
 */
export function lazyPattern(source: string, flags: string): () => RegExp {
  let pattern: RegExp | undefined;
  return () => {
    pattern ??= new RegExp(source, flags);
    return pattern;
  };
}

/**
 * Whether an object is a record of names and values: a plain one, or an instance of an application's class with fields. Lists,
 * maps, dates and other built-in objects hold their values elsewhere, as do instances with only private fields.
 */
export function isNamedValues(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  if (Object.prototype.toString.call(value) !== '[object Object]' || Symbol.iterator in value) return false;
  return isPlain(value) || Object.keys(value).length > 0;
}

/** Of any realm, as test runners use several. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Other names are not repeated in messages, as they may be data. */
const plainName = /^[A-Za-z_][\w-]{0,39}$/;

/**
 * The first problem of an options object: not a record of names and values, or an unknown name. Mistakes of untyped callers
 * would otherwise be ignored silently.
 */
export function optionsProblem(given: unknown, names: readonly string[]): string | undefined {
  if (!isNamedValues(given)) return `the options must be ${plainObject}`;
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  return unknown === undefined ? undefined : unknownName('option', unknown, names);
}

/** Lists and `Map`s are objects, too. */
export const plainObject = 'a plain object of names and values';

/** @param kind what the names denote: `option` */
export function unknownName(kind: string, name: string, names: readonly string[]): string {
  if (!plainName.test(name)) return `there is an unknown ${kind}; there are ${names.join(', ')}`;
  const nearest = nearestName(name, names);
  return nearest === undefined
    ? `unknown ${kind} ${name}; there are ${names.join(', ')}`
    : `unknown ${kind} ${name}: did you mean ${nearest}?`;
}

interface Nearness {
  /** Maximum number of edits. Default: two, or a third of the letters. */
  readonly limit?: number;
  /** Maximum number of names. Default: 3. */
  readonly count?: number;
  /** A prefix counts as near, such as `svc.broker.async`. */
  readonly withBeginnings?: boolean;
}

/** Longer texts are not mistyped names, and slow to compare. */
const maxCharacters = 200;

/** The names that a wrong one most likely means, nearest first. */
export function nearestNames(wrong: string, names: Iterable<string>, nearness: Nearness = {}): string[] {
  const wanted = squash(wrong);
  // Any two names of two letters are two edits apart.
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

/** The option, variable or word that a wrong one most likely means. */
export function nearestName(
  wrong: string,
  names: Iterable<string>,
  limit: number = Math.max(2.5, Math.floor(lastPart(squash(wrong)).length / 3)),
): string | undefined {
  return nearestNames(wrong, names, { limit, count: 1, withBeginnings: true })[0];
}

/** ` (did you mean a, b?)`, or an empty text. */
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

/** Unifies spellings that people mix up: `bootstrap_servers`, `bootstrapServers`, `bootstrap-servers`. */
function squash(name: string): string {
  return name.slice(0, maxCharacters).toLowerCase().replace(/[-_]/g, '');
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

/** Insertions, deletions, replacements and swaps of neighbors that turn `a` into `b`. */
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

/** The name in each normal form of Unicode. JavaScript and file systems treat them as different names, people as one. */
export function inEachForm(name: string): string[] {
  return ascii.test(name) ? [name] : [...new Set([name, name.normalize('NFC'), name.normalize('NFD')])];
}

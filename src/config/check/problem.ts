import { types } from 'node:util';
import { editDistance, isNamedValues, nearestName } from '../../ground/names.ts';
import { kebabCase } from '../schema/option.ts';
import { isSection, knownNames, optionNamed, targetsName } from '../schema/schema.ts';

/** One mistake in the configuration, or one thing worth a warning. Never holds the value of a secret. */
export interface Problem {
  /** The option as the documentation writes it (`svc.broker.topic`), or the file or variable that is the trouble. */
  readonly name: string;
  /** What is wrong. Texts of the specification stand here word for word. */
  readonly message: string;
  /** The value that was found, ready to print. */
  readonly got?: string | undefined;
  /** `svc.config.yaml:7`, `environment variable SVC_BROKER_TOPIC`, `code`. */
  readonly where?: string | undefined;
  /** What to do: a sentence, its full stop left out. */
  readonly fix?: string | undefined;
}

/** What is wrong with a value, before its name and place are known. */
export interface Mistake {
  readonly message: string;
  readonly got?: string | undefined;
  readonly fix?: string | undefined;
  /** Of a list: which item, from 0. */
  readonly index?: number | undefined;
}

/**
 * A name with nothing behind it: in YAML, what begins with # is a comment. Taken for a name that is not there, a target would publish
 * everything, and without a key.
 */
export function emptyValue(example: string): Mistake {
  const fix = `Put it in quotes where it begins with #, as in ${example}, or take the line out`;
  return { message: 'is empty: YAML takes what begins with # for a comment', fix };
}

/** A mistake, and the others of the same value: all are said at once. */
export interface Mistakes extends Mistake {
  readonly more?: readonly Mistake[] | undefined;
}

/** The value, or the first mistake with the others behind it. */
export function orMistakes<T>(
  value: T,
  mistakes: readonly Mistake[],
): { readonly ok: true; readonly value: T } | ({ readonly ok: false } & Mistakes) {
  const [first, ...more] = mistakes;
  return first === undefined ? { ok: true, value } : { ok: false, ...first, more };
}

/** One problem for each mistake; of an item of a list, with its place in it. */
export function problemsOf(
  name: string,
  { more = [], ...first }: Mistakes,
  place: { where(): string; whereItem(index: number): string },
): Problem[] {
  return [first, ...more].map(({ message, got, fix, index }) => ({
    name: index === undefined ? name : `${name}[${index}]`,
    message,
    got,
    where: index === undefined ? place.where() : place.whereItem(index),
    fix,
  }));
}

/** `name: message, got value (where). What to do.` */
export function formatProblem(problem: Problem): string {
  const got = problem.got === undefined ? '' : `, got ${problem.got}`;
  const where = problem.where === undefined ? '' : ` (${problem.where})`;
  const fix = problem.fix === undefined ? '' : ` ${problem.fix}${problem.fix.endsWith('?') ? '' : '.'}`;
  return `${printable(problem.name)}: ${problem.message}${got}${where}.${fix}`;
}

/** A value for a message. Of texts only that they are some: a password may stand anywhere by mistake. */
export function describeValue(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return shorten(String(value));
  if (typeof value === 'boolean' || value === null || value === undefined) return String(value);
  return describeType(value);
}

/** `7 (number)`: for a value of the wrong type. */
export function describeTyped(value: unknown): string {
  const says = describeValue(value);
  return ['number', 'boolean', 'bigint'].includes(typeof value) ? `${says} (${typeof value})` : says;
}

/** `a number`: for what stands where no single value belongs, and may be one of any option. */
export function describeType(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** A name that somebody else wrote, on one line. */
export function printable(text: string): string {
  return shorten(text.replace(/\p{C}/gu, '?'), 200);
}

function shorten(text: string, most = 80): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

const kinds = [
  'Error',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'AggregateError',
];

/** What was thrown, by a name that the thrower did not choose: the text of an error may quote anything. */
export function kindOfError(error: unknown): string {
  if (!types.isNativeError(error)) return 'it threw something that is no error';
  const name: unknown = error.name;
  return kinds.find((kind) => kind === name) ?? 'Error';
}

/** Names and what stands for each. */
export type Names = Readonly<Record<string, readonly string[]>>;

/** `{ customer: arn:…, old: [a, b] }`, or a text: JSON, or `customer=arn:…,other=…`; and all that is wrong with it. */
export function checkNames(given: unknown): ReturnType<typeof orMistakes<Names>> {
  const value = typeof given === 'string' ? readText(given.trim()) : given;
  if (!isNamedValues(value)) {
    return orMistakes({}, [{ message: 'must be an object of names', got: describeTyped(given) }]);
  }
  const names: Record<string, readonly string[]> = {};
  const mistakes: Mistake[] = [];
  for (const [index, [name, texts]] of Object.entries(value).entries()) {
    const list: readonly unknown[] = Array.isArray(texts) ? texts : [texts];
    if (list.length === 0 || !list.every((text) => typeof text === 'string' && text.trim() !== ''))
      mistakes.push({ message: `says of name ${index + 1} neither a text nor a list of texts` });
    else names[name] = list.map((text) => (text as string).trim());
  }
  return orMistakes(names, mistakes);
}

function readText(text: string): unknown {
  if (text.startsWith('{')) {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }
  const pairs = text.split(',').map((pair) => pair.split(/=(.*)/s, 2));
  return pairs.every((pair) => pair.length === 2) ? Object.fromEntries(pairs) : undefined;
}

/**
 * A name that somebody wrote and that is none of the known ones, as a message may show it: words that are known, begin a known
 * one or are nearly one. Others become `?`: what stands in the place of a name may be a password with its colon forgotten.
 */
export function shownName(name: string, known: Iterable<string>): string {
  const words = new Set(['svc', ...known].flatMap((each) => each.split('.').flatMap(wordsOf)));
  return name
    .slice(0, mostCharacters)
    .split('.')
    .map((part) => (isShown(part, words) ? part : '?'))
    .join('.');
}

const mostCharacters = 200;

function isShown(part: string, words: ReadonlySet<string>): boolean {
  const own = wordsOf(part);
  return own.every((word) => {
    if (!/^[a-z0-9]+$/.test(word)) return false;
    return words.has(word) || [...words].some((known) => isNear(word, known));
  });
}

/** `requestTimeoutMs`, `request-timeout-ms` and `request_timeout_ms` have the same words, which a user may also write as one. */
function wordsOf(part: string): string[] {
  const words = kebabCase(part).split(/[-_]/);
  return [...words.filter((word) => word !== '')];
}

function isNear(word: string, known: string): boolean {
  if (word.length > 3 && known.startsWith(word)) return true;
  if (word.length < 4 || known.length < 4 || Math.abs(word.length - known.length) > 2) return false;
  return editDistance(word, known) <= (word.length < 6 ? 1 : 2);
}

/** A value as one source gives it, not yet checked. */
export interface Setting {
  /** As the documentation writes it. */
  readonly name: string;
  readonly value: unknown;
  /** For messages. A function, because the line of a file is only looked for when there is something to say. */
  readonly where: () => string;
  /** Where a list holds targets: where the target of that index stands. */
  readonly whereItem: (index: number) => string;
}

export interface Settings {
  readonly settings: ReadonlyMap<string, Setting>;
  readonly problems: readonly Problem[];
}

/** Keys as they are written, outermost first. */
export type RawPath = readonly (string | number)[];

/**
 * Takes an object apart into settings. Keys may be nested or dotted, kebab-case or camelCase. Unknown names, names that
 * are given twice and values in the place of a section become problems. Reads every property once.
 */
export function flatten(root: object, where: (path: RawPath) => string): Settings {
  const settings = new Map<string, Setting & { readonly spelled: string }>();
  const problems: Problem[] = [];

  const visit = (section: object, sectionName: string, path: RawPath): void => {
    for (const [key, value] of Object.entries(section)) {
      const rawPath = [...path, key];
      const name = sectionName === '' ? kebabCase(key) : `${sectionName}.${kebabCase(key)}`;
      if (optionNamed(name) !== undefined || name === targetsName) take(name, value, rawPath);
      else if (isSection(name)) enter(name, value, rawPath);
      else if (rawPath.length > 1 || key !== '$schema') unknown(name, rawPath);
    }
  };

  const take = (name: string, value: unknown, rawPath: RawPath): void => {
    if (value === undefined) return;
    // A list of targets of which each one is commented out; a topic that is missing where one is needed is said by its own words.
    if (value === null && (name === targetsName || name === 'svc.broker.topic')) return;
    const spelled = rawPath.join('.');
    if (value === null) {
      problems.push({ name, where: where(rawPath), ...emptyValue(`${rawPath.at(-1)}: "#…"`) });
      return;
    }
    const first = settings.get(name);
    if (first !== undefined) {
      const message = `is given twice, as ${first.spelled} and as ${spelled}`;
      problems.push({ name, message, where: where(rawPath), fix: 'Keep one of them' });
      return;
    }
    settings.set(name, {
      name,
      value,
      spelled,
      where: () => where(rawPath),
      whereItem: (index) => where([...rawPath, index]),
    });
  };

  const enter = (name: string, value: unknown, rawPath: RawPath): void => {
    if (value === null || value === undefined) return;
    if (isNamedValues(value)) {
      visit(value, name, rawPath);
      return;
    }
    const inside = knownNames().filter((known) => known.startsWith(`${name}.`) && !isSection(known));
    const fix = `Under it stand names such as ${inside.slice(0, 3).join(', ')}`;
    problems.push({
      name,
      message: 'must be a section',
      got: describeType(value),
      where: where(rawPath),
      fix,
    });
  };

  const unknown = (name: string, rawPath: RawPath): void => {
    const nearest = nearestName(name, knownNames());
    const fix =
      nearest === undefined ? 'All names stand in docs/configuration.md' : `Did you mean ${nearest}?`;
    const shown = shownName(rawPath.join('.'), knownNames());
    problems.push({ name: shown, message: 'is not a known name', where: where(rawPath), fix });
  };

  visit(root, '', []);
  return { settings, problems };
}

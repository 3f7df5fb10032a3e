import { types } from 'node:util';

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

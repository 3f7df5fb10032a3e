import { systemClock } from '../../ground/clock.ts';
import { parsePast } from '../../ground/instant.ts';
import { problem, type Reply } from '../reply.ts';

type Fields = Readonly<Record<string, unknown>>;
/** What is wrong with the value of a field, after its name; `undefined`: nothing. */
type Check = (value: unknown) => string | undefined;
export type Checks = Readonly<Record<string, Check>>;

const example =
  'a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.';

/** Milliseconds since the epoch of what `past` has let through. */
export function timeOf(value: unknown): number | undefined {
  return typeof value === 'string' ? parsePast(value, systemClock.now()) : undefined;
}

export const past: Check = (value) => {
  const time = timeOf(value);
  if (time === undefined) return `must be ${example}`;
  return time > systemClock.now() ? 'lies in the future.' : undefined;
};

export const pastOrFuture: Check = (value) =>
  timeOf(value) === undefined ? `must be ${example}` : undefined;

export const requiredPast: Check = (value) =>
  value === undefined || value === null ? `is required: ${example}` : past(value);

export const wholeFrom =
  (least: number, more = ''): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= least
      ? undefined
      : `must be a whole number from ${least} on${more}.`;

export const flag: Check = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false.');

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

export const text: Check = (value) =>
  isText(value) ? undefined : 'must be a text: only events with it are sent.';

const mostTexts = 100;

/** One of them, or a list. */
export const texts: Check = (value) => {
  const all = Array.isArray(value) ? value : [value];
  return all.length > 0 && all.length <= mostTexts && all.every(isText)
    ? undefined
    : `must be a text or a list of up to ${mostTexts}: only events with one of them are meant.`;
};

export const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    values.includes(value as string) ? undefined : `must be ${values.join(' or ')}.`;

/** What is wrong with a body, or a query. A field that is misspelt is not passed over: of a limit that does not hold nobody would hear. */
export function checkFields(fields: Fields, checks: Checks, what = 'The body'): Reply | undefined {
  for (const [field, check] of Object.entries(checks)) {
    const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
    const wrong = value === undefined && check !== requiredPast ? undefined : check(value);
    if (wrong !== undefined) return problem(400, `${field} ${wrong}`, {}, field);
  }
  const names = Object.keys(checks);
  if (Object.keys(fields).every((field) => names.includes(field))) return checkOrder(fields);
  return problem(400, `${what} takes the fields ${names.slice(0, -1).join(', ')} and ${names.at(-1)} only.`);
}

function checkOrder(fields: Fields): Reply | undefined {
  const [since, until] = [timeOf(fields.since), timeOf(fields.until)];
  if (since === undefined || until === undefined || since < until) return undefined;
  return problem(400, 'since is not before until.', {}, 'since');
}

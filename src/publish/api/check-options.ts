import { types } from 'node:util';
import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import {
  headerNameProblem,
  headerText,
  headerTextForm,
  maxHeaders,
  type Severity,
  severities,
  topicNameForm,
  topicNamePattern,
} from '../../ground/event-fields.ts';
import { isNamedValues, optionsProblem } from '../../ground/names.ts';
import type { PublishOptions } from '../publisher.ts';

interface CheckedOptions {
  readonly severity?: Severity | undefined;
  readonly topic?: string | undefined;
  readonly eventType?: string | undefined;
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** Makes the headers of the record, or throws why it cannot. */
  readonly headers?: (() => Readonly<Record<string, string>>) | undefined;
  /** Why nothing is sent. The valid options still label the event in metrics. */
  readonly mistake?: SvcError;
}

/** The maximum of `setTimeout`. */
const maxTimeoutMs = 2_147_483_647;

/** Returns the value to use, or calls `must`. */
type Check = (value: unknown) => unknown;

const checks = {
  severity: (value: unknown) =>
    severities.includes(value as Severity) ? value : must(`one of ${severities.join(', ')}`),
  topic: (value: unknown) =>
    typeof value === 'string' && topicNamePattern.test(value)
      ? value
      : must(`a topic name that Kafka accepts: ${topicNameForm}`),
  key(value: unknown) {
    if (typeof value === 'string') return value;
    if (typeof value === 'bigint' ? !isTooBig(value) : typeof value === 'boolean' || Number.isFinite(value))
      return String(value);
    return must('a string, a number or a boolean');
  },
  notEmpty: (value: unknown) =>
    typeof value === 'string' && value.trim() !== '' ? value : must('a non-empty string'),
  headers: (value: unknown) => () => headersOf(value),
  asIs: (value: unknown) => value,
  must,
};

class Must extends Error {}

function must(be: string): never {
  throw new Must(be);
}

type PublishFields = { readonly [Name in keyof Required<PublishOptions>]: Check };

const checkFields = createCheck(
  ({ severity, topic, key, notEmpty, headers }): PublishFields => ({
    ...{ severity, topic, eventType: notEmpty, key, headers },
    timeoutMs: (value) =>
      typeof value === 'number' && value >= 1 && value <= maxTimeoutMs
        ? value
        : must(`a number of milliseconds from 1 to ${maxTimeoutMs}`),
  }),
  (what) => new SvcError('SVC_PUBLISH_OPTIONS', `publish(): ${what}`),
);

export function checkPublishOptions(given: unknown): CheckedOptions {
  return given === undefined || given === null ? {} : checkFields(given);
}

/**
 * Makes a check of options of callers without types. It finds misspelled names, and corrects what it can: a number as key becomes
 * its text. It never throws, whatever the object does. Messages contain no values.
 *
 * @param fieldsOf the fields that there are, with a check for each
 */
export function createCheck(
  fieldsOf: (all: typeof checks) => Readonly<Record<string, Check>>,
  mistake: (what: string) => SvcError,
) {
  const fields = fieldsOf(checks);
  const names = Object.keys(fields);
  return (given: unknown): { readonly mistake?: SvcError; readonly [name: string]: unknown } => {
    const found: Record<string, unknown> = {};
    try {
      let why = optionsProblem(given, names);
      for (const name of isNamedValues(given) ? names : []) {
        const value = (given as Record<string, unknown>)[name];
        if (value === undefined || value === null) continue;
        try {
          found[name] = fields[name]?.(value);
        } catch (error) {
          if (!(error instanceof Must)) throw error;
          why ??= `${name} must be ${error.message}`;
        }
      }
      return why === undefined ? found : { ...found, mistake: mistake(why) };
    } catch {
      return { ...found, mistake: mistake('the options cannot be read') };
    }
  };
}

/**
 * The given headers as strings. Null and undefined are left out.
 *
 * @throws SvcError `SVC_PUBLISH_HEADERS`, which identifies a header by its number, because names can be data
 */
function headersOf(given: unknown): Readonly<Record<string, string>> {
  const entries = entriesOf(given);
  if (entries === undefined) throw wrong('headers must be an object, a Map, or the Headers of fetch');
  if (entries.length > maxHeaders) throw wrong(`there can be at most ${maxHeaders} headers`);
  const headers: Record<string, string> = {};
  for (const [index, [name, value]] of entries.entries()) {
    if (typeof name !== 'string') throw wrong(`header ${index + 1} must have a string as name`);
    const problem = headerNameProblem(name);
    if (problem !== undefined) throw wrong(`header ${index + 1} ${problem}`);
    const text = headerText(value);
    if (text === undefined) throw wrong(`header ${index + 1} must be ${headerTextForm}`);
    if (text !== null) headers[name] = text;
  }
  return headers;
}

/** The entries of an object with named values, of a `Map`, or of any `Headers` of fetch. `undefined` for other objects. */
function entriesOf(value: unknown): [name: unknown, value: unknown][] | undefined {
  if (isNamedValues(value)) return Object.entries(value);
  if (types.isMap(value)) return [...value.entries()];
  const { entries } = (value ?? {}) as { entries?: () => Iterable<[unknown, unknown]> };
  const isHeaders = Object.prototype.toString.call(value) === '[object Headers]';
  return isHeaders && typeof entries === 'function' ? [...entries.call(value)] : undefined;
}

function wrong(message: string): SvcError {
  return new SvcError('SVC_PUBLISH_HEADERS', message);
}

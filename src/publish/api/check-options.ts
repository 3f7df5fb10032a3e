import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import { type Severity, severities, topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import { isNamedValues, optionsProblem } from '../../ground/names.ts';
import type { PublishOptions } from '../publisher.ts';

interface CheckedOptions {
  readonly severity?: Severity | undefined;
  readonly topic?: string | undefined;
  readonly eventType?: string | undefined;
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly headers?: PublishOptions['headers'];
  /** Why nothing is sent. The valid options still label the event in metrics. */
  readonly mistake?: SvcError;
}

/** The maximum of `setTimeout`. */
const maxTimeoutMs = 2_147_483_647;

/** Returns the value to use, or calls `must`. */
export type Check = (value: unknown) => unknown;

export const checks: { readonly [Name in keyof Required<PublishOptions>]: Check } = {
  severity: (value) =>
    severities.includes(value as Severity) ? value : must(`one of ${severities.join(', ')}`),
  topic: (value) =>
    typeof value === 'string' && topicNamePattern.test(value)
      ? value
      : must(`a topic name that Kafka accepts: ${topicNameForm}`),
  eventType: notEmpty,
  key(value) {
    if (typeof value === 'string') return value;
    if (typeof value === 'bigint' ? !isTooBig(value) : typeof value === 'boolean' || Number.isFinite(value))
      return String(value);
    return must('a string, a number or a boolean');
  },
  // `headersOf` checks each one when it makes the headers of the record.
  headers: (value) => value,
  timeoutMs: (value) =>
    typeof value === 'number' && value >= 1 && value <= maxTimeoutMs
      ? value
      : must(`a number of milliseconds from 1 to ${maxTimeoutMs}`),
};

export function checkPublishOptions(given: unknown): CheckedOptions {
  if (given === undefined || given === null) return {};
  return checkFields(given, checks, (what) => new SvcError('SVC_PUBLISH_OPTIONS', `publish(): ${what}`));
}

/**
 * Checks options of callers without types, and finds misspelled names. Corrects what it can: a number as key becomes its text.
 * Never throws, whatever the object does. Messages contain no values.
 */
export function checkFields(
  given: unknown,
  fields: Readonly<Record<string, Check>>,
  mistake: (what: string) => SvcError,
): { readonly mistake?: SvcError; readonly [name: string]: unknown } {
  const found: Record<string, unknown> = {};
  const names = Object.keys(fields);
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
}

class Must extends Error {}

export function must(be: string): never {
  throw new Must(be);
}

export function notEmpty(value: unknown): unknown {
  return typeof value === 'string' && value.trim() !== '' ? value : must('a non-empty string');
}

// check/: all that can be wrong with a configuration, found together and said without a value.

import { nearestName } from '../../ground/names.ts';
import { ownName } from '../../ground/own-parts.ts';
import { type Format, formats, hasFormat, type Option, shortName } from '../schema/option.ts';
import { options } from '../schema/schema.ts';
import { checkKeys, checkRulesOf } from './pii-rules.ts';
import {
  checkNames,
  describeTyped,
  describeValue,
  type Mistake,
  type Mistakes,
  orMistakes,
  type Problem,
  problemsOf,
  type Setting,
} from './problem.ts';

/** Option name -> checked value, defaults included. A bad value is replaced by its default. */
export type Values = ReadonlyMap<string, unknown>;

interface Validated {
  readonly values: Values;
  /** Names whose value is refused, and reported already. */
  readonly invalid: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** Checks every setting by itself: type, bounds and form. Reports all problems. */
export function validate(settings: ReadonlyMap<string, Setting>): Validated {
  const values = new Map<string, unknown>();
  const invalid = new Set<string>();
  const problems: Problem[] = [];
  for (const option of options) {
    if (option.default !== undefined) values.set(option.name, option.default);
    const setting = settings.get(option.name);
    if (setting === undefined) continue;
    const checked = checkValue(option, setting.value);
    if (!checked.ok) {
      invalid.add(option.name);
      const message = wordOfSpecification(option, setting) ?? checked.message;
      problems.push(...problemsOf(option.name, { ...checked, message }, setting));
      continue;
    }
    values.set(option.name, checked.value);
  }
  return { values, invalid, problems };
}

/** A blank topic is a missing one. */
function wordOfSpecification(option: Option, setting: Setting): string | undefined {
  const isBlankTopic =
    option.name === 'svc.broker.topic' && typeof setting.value === 'string' && setting.value.trim() === '';
  return isBlankTopic ? topicRequired : undefined;
}

export const topicRequired = 'Kafka topic is required';

/** `value` in the type that the option has, or all that is wrong with it. */
export type Checked = { readonly ok: true; readonly value: unknown } | ({ readonly ok: false } & Mistakes);

/** Checks one value against type, bounds and form of its option. */
export function checkValue(option: Option, value: unknown): Checked {
  if (option.orFunction && typeof value === 'function') return { ok: true, value };
  const checked = checkType(option, value);
  if (checked.ok || !option.secret) return checked;
  const more = checked.more?.map((mistake) => ({ ...mistake, got: undefined }));
  return { ...checked, got: undefined, more };
}

function checkType(option: Option, value: unknown): Checked {
  switch (option.type) {
    case 'boolean':
      return typeof value === 'boolean' ? { ok: true, value } : wrongType('must be true or false', value);
    case 'integer':
    case 'number':
      return checkNumber(option, value);
    case 'enum':
      return checkEnum(option, value);
    case 'list':
      return checkList(option, value);
    case 'string':
      return checkString(option, value);
    case 'rules':
      return checkRulesOf(value, false);
    case 'keys':
      return checkKeys(value);
    case 'names':
      return checkNames(value);
  }
}

function checkNumber(option: Option, value: unknown): Checked {
  const isRight = option.type === 'integer' ? Number.isInteger(value) : Number.isFinite(value);
  if (!isRight)
    return wrongType(
      option.type === 'integer' ? 'must be an integer' : 'must be a number',
      value,
      bounds(option),
    );
  const { min = -Infinity, max = Infinity } = option;
  const number = value as number;
  if (number >= min && number <= max) return { ok: true, value };
  const name = shortName(option.name);
  let message = number < min ? `${name} must be ${atLeast(option, min)}` : `${name} must be at most ${max}`;
  if (option.namesBothBounds) message = `${name} must be between ${min} and ${max}`;
  return { ok: false, message, got: describeValue(value), fix: bounds(option) };
}

function atLeast(option: Option, min: number): string {
  if (min === 0) return '0 or greater';
  return min === 1 && (option.unit === 'ms' || option.unit === 's') ? 'positive' : `at least ${min}`;
}

function bounds(option: Option): string | undefined {
  if (option.min === undefined) return undefined;
  const unit = option.unit === undefined ? '' : ` ${option.unit}`;
  const byDefault = option.default === undefined ? '' : `, default ${option.default}`;
  return `Allowed: ${option.min} to ${option.max}${unit}${byDefault}`;
}

function checkEnum(option: Option, value: unknown): Checked {
  const values = option.values ?? [];
  const { registeredBy } = option;
  const orOwn = registeredBy === undefined ? '' : `, or a name that ${registeredBy}() has`;
  const message = `must be one of ${values.join(', ')}${orOwn}`;
  // YAML makes a number of `acks: 1`.
  if (typeof value === 'number' && values.includes(String(value))) return { ok: true, value: String(value) };
  if (typeof value !== 'string') return wrongType(message, value);
  const exact = sameWord(value, values);
  if (exact !== undefined) return { ok: true, value: exact };
  const later = sameWord(value, Object.keys(option.laterValues ?? {}));
  if (later !== undefined) {
    const why = option.laterValues?.[later] ?? '';
    return { ok: false, message: why, got: describeValue(value), fix: `Use one of ${values.join(', ')}` };
  }
  const nearest = nearestName(value, values);
  // A name next to one of svc's is a slip.
  if (registeredBy !== undefined && nearest === undefined && ownName.test(value)) return { ok: true, value };
  return { ok: false, message, got: describeValue(value), fix: nearest && `Did you mean ${nearest}?` };
}

function sameWord(text: string, words: readonly string[]): string | undefined {
  return words.find((word) => word.toLowerCase() === text.trim().toLowerCase());
}

function checkString(option: Option, value: unknown): Checked {
  if (typeof value !== 'string') {
    const says = option.orFunction ? 'must be a string or a function' : 'must be a string';
    return wrongType(says, value, typeof value === 'number' ? 'Put it in quotes' : undefined);
  }
  const format: Format | undefined = option.format && formats[option.format];
  if (option.format === undefined || format === undefined || hasFormat(option.format, value))
    return { ok: true, value };
  return { ok: false, message: format.says, got: describeValue(value) };
}

function checkList(option: Option, value: unknown): Checked {
  const items = typeof value === 'string' ? value.split(',').filter((item) => item.trim() !== '') : value;
  if (!Array.isArray(items)) return wrongType('must be a list', value);
  const result: string[] = [];
  const mistakes: Mistake[] = [];
  for (const [index, item] of Array.from(items as unknown[]).entries()) {
    const checked = checkItem(option, typeof item === 'string' ? item.trim() : item);
    if (!checked.ok) mistakes.push({ ...checked, message: `item ${index + 1} ${checked.message}` });
    else if (!result.includes(checked.value as string)) result.push(checked.value as string);
  }
  return orMistakes(result, mistakes);
}

function checkItem(option: Option, item: unknown): Checked {
  if (option.values !== undefined) return checkEnum(option, item);
  return checkString(option, item);
}

function wrongType(message: string, value: unknown, fix?: string | undefined): Checked {
  return { ok: false, message, got: describeTyped(value), fix };
}

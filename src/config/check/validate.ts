// check/: finds all problems of a configuration at once. Messages do not contain values.

import { types } from 'node:util';
import { keyIdPattern, keyIdProblem, keyLengthBytes, readKeyText } from '../../ground/event-fields.ts';
import { editDistance, isNamedValues, lazyPattern, nearestName } from '../../ground/names.ts';
import { ownName } from '../../ground/own-parts.ts';
import {
  type PathRule,
  parseRulePath,
  piiLevels,
  piiStrategies,
  piiTypes,
  typeOfName,
} from '../../ground/pii-rule.ts';
import {
  camelCase,
  type Format,
  formats,
  hasFormat,
  isSection,
  kebabCase,
  knownNames,
  type Option,
  optionNamed,
  options,
  shortName,
  targetsName,
} from '../schema/schema.ts';

/** Option name -> checked value, defaults included. The default replaces an invalid value. */
export type Values = ReadonlyMap<string, unknown>;

interface Validated {
  readonly values: Values;
  /** Options with an invalid value, already reported. */
  readonly invalid: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** Checks each setting by itself: type, bounds and format. Reports all problems. */
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

/** A blank topic counts as missing. */
function wordOfSpecification(option: Option, setting: Setting): string | undefined {
  const isBlankTopic =
    option.name === 'svc.broker.topic' && typeof setting.value === 'string' && setting.value.trim() === '';
  return isBlankTopic ? topicRequired : undefined;
}

export const topicRequired = 'Kafka topic is required';

/** The value in the option's type, or all its mistakes. */
export type Checked = { readonly ok: true; readonly value: unknown } | ({ readonly ok: false } & Mistakes);

/** Checks a value against type, bounds and format of its option. */
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
  // YAML reads `acks: 1` as a number.
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
  // A near miss of a built-in name is a typo.
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

/** Rules, or all their mistakes. */
type CheckedRules = ReturnType<typeof orMistakes<readonly PathRule[]>>;

const ruleFields = ['type', 'strategy', 'level', 'keyId', 'masker'] as const;
type RuleParts = { readonly [field in (typeof ruleFields)[number]]?: string };
/** Adds a mistake; reading continues. */
type Say = (message: string, got?: string, fix?: string) => void;

/**
 * Path rules in any form: a list of paths (`customer.email`), of `path=TYPE:STRATEGY:LEVEL` or of objects with `path`; or an object by
 * path. A text (from the environment) is JSON, or paths separated by commas.
 *
 * @param forWhole also accepts `{ type: EMAIL }` and `EMAIL`, for the whole payload
 */
export function checkRulesOf(value: unknown, forWhole: boolean): CheckedRules {
  const mistakes: Mistake[] = [];
  return orMistakes(read(value, forWhole, mistakes), mistakes);
}

function read(value: unknown, forWhole: boolean, mistakes: Mistake[]): PathRule[] {
  const say: Say = (message, got, fix) => mistakes.push({ message, got, fix });
  if (value === false && forWhole) return [];
  if (typeof value === 'string') return readText(value.trim(), forWhole, mistakes);
  if (Array.isArray(value)) {
    return Array.from(value as unknown[]).flatMap((item, index) =>
      readItem(item, (message, got, fix) => mistakes.push({ message, got, fix, index })),
    );
  }
  if (!isNamedValues(value)) {
    say('must be a list of rules', describeTyped(value));
    return [];
  }
  if (forWhole && isRule(value)) return [rule('', readParts(value, say), say)];
  return readPaths(value, say);
}

function readText(text: string, forWhole: boolean, mistakes: Mistake[]): PathRule[] {
  const say: Say = (message, got, fix) => mistakes.push({ message, got, fix });
  if (/^[[{]/.test(text)) {
    try {
      return read(JSON.parse(text), forWhole, mistakes);
    } catch {
      say('is not valid JSON');
      return [];
    }
  }
  if (forWhole && (piiTypes as readonly string[]).includes(text.split(':')[0]?.toUpperCase() ?? ''))
    return [rule('', partsOf(text, say), say)];
  return text
    .split(',')
    .filter((item) => item.trim() !== '')
    .map((item) => readShort(item, say));
}

function readItem(item: unknown, say: Say): PathRule[] {
  if (typeof item === 'string') return [readShort(item, say)];
  if (!isNamedValues(item)) {
    say('must hold paths, or objects with path', describeTyped(item));
    return [];
  }
  if (!Object.hasOwn(item, 'path')) return readPaths(item, say);
  const { path, ...parts } = item as { path: unknown };
  if (typeof path !== 'string') say('must hold paths that are strings', describeTyped(path));
  return [rule(typeof path === 'string' ? checkPath(path, say) : '', readParts(parts, say), say)];
}

function readShort(text: string, say: Say): PathRule {
  const [path = '', says] = text.split(/=(?=[^="'\]]*$)/);
  return rule(checkPath(path, say), says === undefined ? {} : partsOf(says, say), say);
}

/** `{ customer.email: EMAIL, '**.ssn': { type: NATIONAL_ID, strategy: HASH } }` */
function readPaths(paths: object, say: Say): PathRule[] {
  return Object.entries(paths).flatMap(([path, says], index) => {
    const known = checkPath(path, say);
    if (typeof says === 'string') return [rule(known, partsOf(says, say), say)];
    if (says === null) return [rule(known, {}, say)];
    if (isNamedValues(says)) return [rule(known, readParts(says, say), say)];
    say(`gives path ${index + 1} neither a type nor a rule`, describeTyped(says));
    return [];
  });
}

/** An invalid path is reported, and replaced by the whole payload. */
function checkPath(path: string, say: Say): string {
  const steps = parseRulePath(path);
  if (typeof steps !== 'string') return path.trim();
  say(`has a path that ${steps}`, describeValue(path));
  return '';
}

/** `EMAIL:ENCRYPT:NORMAL` */
function partsOf(text: string, say: Say): RuleParts {
  const [type, strategy, level, ...more] = text.split(':').map((part) => part.trim());
  if (more.length > 0) say('has a rule that is not TYPE:STRATEGY:LEVEL', describeValue(text));
  return { ...(type && { type }), ...(strategy && { strategy }), ...(level && { level }) };
}

function isRule(value: object): boolean {
  const names = Object.keys(value).map(camelCase);
  return names.length > 0 && names.every((name) => (ruleFields as readonly string[]).includes(name));
}

function readParts(given: object, say: Say): RuleParts {
  const parts: Record<string, string> = {};
  for (const [key, value] of Object.entries(given)) {
    const name = camelCase(key);
    if (!(ruleFields as readonly string[]).includes(name)) {
      const nearest = nearestName(key, ruleFields);
      const fix =
        nearest === undefined ? `Known are path, ${ruleFields.join(', ')}` : `Did you mean ${nearest}?`;
      say(`has a rule with the unknown field ${shownName(key, ruleFields)}`, undefined, fix);
    } else if (typeof value === 'string' && value.trim() !== '') parts[name] = value.trim();
    else if (value !== null && value !== undefined)
      say(`has a rule whose ${name} is not a string`, describeTyped(value));
  }
  return parts;
}

function rule(path: string, parts: RuleParts, say: Say): PathRule {
  const { keyId, masker } = parts;
  if (keyId !== undefined && !keyIdPattern.test(keyId))
    say('has a rule with an Invalid key id', undefined, 'Use letters, digits, underscores and hyphens');
  const last = parseRulePath(path);
  const named = typeof last === 'string' ? undefined : last.findLast((step) => typeof step === 'object');
  return {
    path,
    type: word('type', parts.type, piiTypes, say) ?? typeOfName(typeof named === 'object' ? named.key : ''),
    strategy: word('strategy', parts.strategy, piiStrategies, say) ?? 'MASK',
    level: word('level', parts.level, piiLevels, say) ?? 'NORMAL',
    keyId,
    masker,
  };
}

function word<T extends string>(
  name: string,
  text: string | undefined,
  words: readonly T[],
  say: Say,
): T | undefined {
  if (text === undefined) return undefined;
  const found = words.find((one) => one === text.toUpperCase());
  if (found !== undefined) return found;
  const ofName = words.find((one) => one === typeOfName(text) && one !== 'CUSTOM');
  const nearest = ofName ?? nearestName(text.toUpperCase(), words);
  const fix = nearest && `Did you mean ${nearest}?`;
  say(`has a rule whose ${name} is not one of ${words.join(', ')}`, describeValue(text), fix);
  return undefined;
}

/** An entry of `svc.pii.crypto.keys`. */
export interface EncryptionKeyConfig {
  readonly id: string;
  readonly key: string;
  readonly status: 'primary' | 'decrypt' | undefined;
}

const fields = ['id', 'key', 'status'];
/** Readers try each key. */
const maxKeys = 8;

/** Checks `svc.pii.crypto.keys`; a text is JSON. Messages never contain a key. */
function checkKeys(given: unknown): ReturnType<typeof orMistakes<readonly EncryptionKeyConfig[]>> {
  const value = typeof given === 'string' ? parsed(given) : given;
  const only = (message: string) => orMistakes([], [{ message }]);
  if (value === undefined) return only('is not valid JSON');
  if (!Array.isArray(value)) return only('must be a list of { id, key, status }');
  if (value.length > maxKeys) return only(`must hold at most ${maxKeys} keys`);
  const keys: EncryptionKeyConfig[] = [];
  const mistakes: Mistake[] = [];
  for (const [index, item] of Array.from(value as unknown[]).entries()) {
    const key = checkKey(item, `item ${index + 1}`);
    if (typeof key === 'string') mistakes.push({ message: key });
    else if (keys.some(({ id }) => id === key.id))
      mistakes.push({ message: `item ${index + 1} has an id that is in the list twice` });
    else keys.push(key);
  }
  if (keys.filter(({ status }) => status === 'primary').length > 1)
    mistakes.push({ message: 'has more than one primary key' });
  return orMistakes(keys, mistakes);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checkKey(item: unknown, name: string): EncryptionKeyConfig | string {
  if (!isNamedValues(item)) return `${name} must be { id, key, status }`;
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(item)) {
    if (!fields.includes(camelCase(key))) return `${name} has the unknown field ${shownName(key, fields)}`;
    found[camelCase(key)] = value;
  }
  const { id, key, status } = found;
  if (typeof id !== 'string' || !keyIdPattern.test(id)) return `${name} has an ${keyIdProblem}`;
  if (typeof key !== 'string') return `${name} must have a key: Base64 of 32 bytes`;
  const wrong = wrongKey(key);
  if (wrong !== undefined) return `${name} ${wrong}`;
  const known = typeof status === 'string' ? status.toLowerCase() : status;
  if (known !== undefined && known !== null && known !== 'primary' && known !== 'decrypt')
    return `${name} must have the status primary or decrypt, or no status`;
  return { id, key, status: known ?? undefined };
}

/** The mistake of a key, or `undefined`. The specification defines the error name. */
export function wrongKey(key: string): string | undefined {
  const { bytes, spelling } = readKeyText(key);
  if (bytes.length === keyLengthBytes) return undefined;
  return `must be exactly ${keyLengthBytes} bytes, written in Base64; found ${bytes.length}, read as ${spelling} (IllegalArgumentException)`;
}

/** A mistake in the configuration, or a warning. Never contains a secret. */
export interface Problem {
  /** The documented option name (`svc.broker.topic`), or the file or variable. */
  readonly name: string;
  /** Texts of the specification are verbatim. */
  readonly message: string;
  /** The value, ready to print. */
  readonly got?: string | undefined;
  /** `svc.config.yaml:7`, `environment variable SVC_BROKER_TOPIC`, `code`. */
  readonly where?: string | undefined;
  /** The remedy: a sentence without its full stop. */
  readonly fix?: string | undefined;
}

/** A mistake of a value, before its name and place are added. */
export interface Mistake {
  readonly message: string;
  readonly got?: string | undefined;
  readonly fix?: string | undefined;
  /** The index of the list item, from 0. */
  readonly index?: number | undefined;
}

/** A name without a value: YAML reads `#…` as a comment. If svc ignored it, a target would publish everything, and without a key. */
export function emptyValue(example: string): Mistake {
  const fix = `If it begins with #, put it in quotes, as in ${example}, or remove the line`;
  return { message: 'is empty: YAML reads text after # as a comment', fix };
}

/** A mistake with the others of the same value. */
interface Mistakes extends Mistake {
  readonly more?: readonly Mistake[] | undefined;
}

/** The value, or its mistakes. */
export function orMistakes<T>(
  value: T,
  mistakes: readonly Mistake[],
): { readonly ok: true; readonly value: T } | ({ readonly ok: false } & Mistakes) {
  const [first, ...more] = mistakes;
  return first === undefined ? { ok: true, value } : { ok: false, ...first, more };
}

/** A problem for each mistake. A list item has its own place. */
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

/** A value for a message. Texts are only named as such, because they may be passwords. */
function describeValue(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return shorten(String(value));
  if (typeof value === 'boolean' || value === null || value === undefined) return String(value);
  return describeType(value);
}

/** `7 (number)`, for a value of the wrong type. */
export function describeTyped(value: unknown): string {
  const says = describeValue(value);
  return ['number', 'boolean', 'bigint'].includes(typeof value) ? `${says} (${typeof value})` : says;
}

/** `a number`, for a value whose option is unknown. */
export function describeType(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

const invisible = lazyPattern(String.raw`\p{C}`, 'gu');

/** A user-defined name on one line, shortened. */
export function printable(text: string): string {
  return shorten(text.replace(invisible(), '?'), 200);
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

/** A known class name of an error. Its message may quote anything. */
export function kindOfError(error: unknown): string {
  if (!types.isNativeError(error)) return 'it threw something that is not an error';
  const name: unknown = error.name;
  return kinds.find((kind) => kind === name) ?? 'Error';
}

/** Names with one or more texts each. */
export type Names = Readonly<Record<string, readonly string[]>>;

/** Checks `{ customer: arn:…, old: [a, b] }`, or a text: JSON, or `customer=arn:…,other=…`. */
function checkNames(given: unknown): ReturnType<typeof orMistakes<Names>> {
  const value = typeof given === 'string' ? readTextOfProblem(given.trim()) : given;
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

function readTextOfProblem(text: string): unknown {
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
 * Masks an unknown name for a message: only known words, their beginnings and near misses are shown, others become `?`.
 * It may be a password whose colon is missing.
 */
export function shownName(name: string, known: Iterable<string>): string {
  const words = new Set(['svc', ...known].flatMap((each) => each.split('.').flatMap(wordsOf)));
  return name
    .slice(0, maxCharacters)
    .split('.')
    .map((part) => (isShown(part, words) ? part : '?'))
    .join('.');
}

const maxCharacters = 200;

function isShown(part: string, words: ReadonlySet<string>): boolean {
  const own = wordsOf(part);
  return own.every((word) => {
    if (!/^[a-z0-9]+$/.test(word)) return false;
    return words.has(word) || [...words].some((known) => isNear(word, known));
  });
}

/** `requestTimeoutMs`, `request-timeout-ms` and `request_timeout_ms` have the same words. */
function wordsOf(part: string): string[] {
  const words = kebabCase(part).split(/[-_]/);
  return [...words.filter((word) => word !== '')];
}

function isNear(word: string, known: string): boolean {
  if (word.length > 3 && known.startsWith(word)) return true;
  if (word.length < 4 || known.length < 4 || Math.abs(word.length - known.length) > 2) return false;
  return editDistance(word, known) <= (word.length < 6 ? 1 : 2);
}

/** An unchecked value of one source. */
export interface Setting {
  /** The documented name. */
  readonly name: string;
  readonly value: unknown;
  /** For messages. A function, because finding a line of the file takes time. */
  readonly where: () => string;
  /** The place of a list item. */
  readonly whereItem: (index: number) => string;
}

export interface Settings {
  readonly settings: ReadonlyMap<string, Setting>;
  readonly problems: readonly Problem[];
}

/** Keys as written, outermost first. */
export type RawPath = readonly (string | number)[];

/**
 * Splits an object into settings. Keys may be nested or dotted, in kebab-case or camelCase. Reports unknown names, duplicates and values
 * in place of a section. Reads each property once.
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
    // All targets may be commented out. A missing topic has its own message.
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
    const fix = `It has names such as ${inside.slice(0, 3).join(', ')}`;
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
    const fix = nearest === undefined ? 'docs/configuration.md lists all names' : `Did you mean ${nearest}?`;
    const shown = shownName(rawPath.join('.'), knownNames());
    problems.push({ name: shown, message: 'is an unknown name', where: where(rawPath), fix });
  };

  visit(root, '', []);
  return { settings, problems };
}

// check/: finds all problems of a configuration at once. Messages do not contain values.

import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { types } from 'node:util';
import { isLoopback } from '../../ground/addresses.ts';
import {
  attributePrefix,
  fitsOutboxText,
  headerNameProblem,
  isAttributeHeader,
  isAttributeText,
  keyIdPattern,
  keyIdProblem,
  keyLengthBytes,
  longestOutboxText,
  maxHeaders,
  readKeyText,
} from '../../ground/event-fields.ts';
import { changeableByOthers, readBoundedSync } from '../../ground/files.ts';
import { clientOf, type KafkaCompression, usualClient } from '../../ground/management.ts';
import { editDistance, isNamedValues, lazyPattern, nearestName, nearestNames } from '../../ground/names.ts';
import { ownName } from '../../ground/own-parts.ts';
import {
  type PathRule,
  type PathStep,
  parseRulePath,
  piiLevels,
  piiStrategies,
  piiTypes,
  typeOfName,
} from '../../ground/pii-rule.ts';
import {
  camelCase,
  formats,
  hasFormat,
  kebabCase,
  type Option,
  optionNamed,
  options,
  targetsName,
  variableOf,
} from '../schema/schema.ts';
import { type TargetConfig, type TargetField, type TargetFields, targetFields } from '../schema/target.ts';

/** Option name -> checked value, defaults included. The default replaces an invalid value. */
type Values = ReadonlyMap<string, unknown>;

interface CheckedSettings {
  readonly values: Values;
  readonly targets: readonly TargetConfig[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  /** Invalid targets. The others work. */
  readonly targetProblems: readonly TargetProblem[];
}

/**
 * Checks each setting by itself, then the targets, then the options that depend on each other. Never throws. `isUsed`: false if svc
 * does not start, or has not read its file. Then options may be missing.
 */
export function checkSettings(
  input: Omit<CheckInput, 'values' | 'invalid'> & { readonly isUsed: boolean },
): CheckedSettings {
  const { values, invalid, problems } = validate(input.settings);
  const isPiiOn = values.get('svc.pii.enabled') !== false;
  const targets = checkTargetsSafely(input.settings.get(targetsName), {
    fields: isPiiOn ? (values.get('svc.pii.fields') as readonly PathRule[]) : [],
    isOutboxOn: values.get('svc.outbox.enabled') === true,
  });
  const across =
    input.isUsed && values.get('svc.enabled') !== false
      ? checkAcrossOptions({ ...input, values, invalid }, targets.targets)
      : { problems: [], warnings: [] };
  return {
    ...{ values, targets: targets.targets, targetProblems: targets.targetProblems },
    problems: [...problems, ...targets.problems, ...across.problems],
    warnings: [...targets.warnings, ...across.warnings],
  };
}

interface Validated {
  readonly values: Values;
  /** Options with an invalid value, already reported. */
  readonly invalid: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** Checks each setting by itself: type, bounds and format. Reports all problems. */
function validate(settings: ReadonlyMap<string, Setting>): Validated {
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

const topicRequired = 'Kafka topic is required';

/** The value in the option's type, or all its mistakes. */
type Checked = { readonly ok: true; readonly value: unknown } | ({ readonly ok: false } & Mistakes);

/** Checks a value against type, bounds and format of its option. */
function checkValue(option: Option, value: unknown): Checked {
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
  if (option.format === undefined || hasFormat(option.format, value)) return { ok: true, value };
  return { ok: false, message: formats[option.format].says, got: describeValue(value) };
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

const encryptionKeyFields = ['id', 'key', 'status'];
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
    const key = checkEncryptionKey(item, `item ${index + 1}`);
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

function checkEncryptionKey(item: unknown, name: string): EncryptionKeyConfig | string {
  if (!isNamedValues(item)) return `${name} must be { id, key, status }`;
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(item)) {
    if (!encryptionKeyFields.includes(camelCase(key)))
      return `${name} has the unknown field ${shownName(key, encryptionKeyFields)}`;
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
function wrongKey(key: string): string | undefined {
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
interface Mistake {
  readonly message: string;
  readonly got?: string | undefined;
  readonly fix?: string | undefined;
  /** The index of the list item, from 0. */
  readonly index?: number | undefined;
}

/** A name without a value: YAML reads `#…` as a comment. If svc ignored it, a target would publish everything, and without a key. */
function emptyValue(example: string): Mistake {
  const fix = `If it begins with #, put it in quotes, as in ${example}, or remove the line`;
  return { message: 'is empty: YAML reads text after # as a comment', fix };
}

/** A mistake with the others of the same value. */
interface Mistakes extends Mistake {
  readonly more?: readonly Mistake[] | undefined;
}

/** The value, or its mistakes. */
function orMistakes<T>(
  value: T,
  mistakes: readonly Mistake[],
): { readonly ok: true; readonly value: T } | ({ readonly ok: false } & Mistakes) {
  const [first, ...more] = mistakes;
  return first === undefined ? { ok: true, value } : { ok: false, ...first, more };
}

/** A problem for each mistake. A list item has its own place. */
function problemsOf(
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
function describeTyped(value: unknown): string {
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
function printable(text: string): string {
  return shorten(text.replace(invisible(), '?'), 200);
}

function shorten(text: string, most = 80): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

const errorNames = [
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
  return errorNames.find((kind) => kind === name) ?? 'Error';
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
function shownName(name: string, known: Iterable<string>): string {
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

interface Settings {
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

const sections: ReadonlySet<string> = sectionsOf(options);

/** True for `svc.broker`, which contains options. */
function isSection(name: string): boolean {
  return sections.has(name);
}

/** All names that users may write: options, sections and `svc.targets`. */
function knownNames(): string[] {
  return [...options.map(({ name }) => name), targetsName, ...sections];
}

/** Runs at each start: the loop takes a tenth of the time of splitting all names. */
function sectionsOf(all: readonly Option[]): Set<string> {
  const found = new Set<string>();
  for (const { name } of all)
    for (let dot = name.indexOf('.'); dot > 0; dot = name.indexOf('.', dot + 1))
      found.add(name.slice(0, dot));
  return found;
}

/** An invalid target and all its problems. The other targets are not affected. */
interface TargetProblem {
  /** Position in `svc.targets`, from 0. */
  readonly index: number;
  /** As in `TargetConfig`. Unknown parts are `?`. */
  readonly id: string;
  readonly problems: readonly Problem[];
}

interface CheckedTargets {
  readonly targets: readonly TargetConfig[];
  readonly targetProblems: readonly TargetProblem[];
  readonly warnings: readonly Problem[];
  /** Problems of the list as a whole. */
  readonly problems: readonly Problem[];
}

/** Other settings that targets depend on. */
interface AroundTargets {
  /** Rules for all payloads. */
  readonly fields: readonly PathRule[];
  readonly isOutboxOn: boolean;
}

const noTargets: CheckedTargets = { targets: [], targetProblems: [], warnings: [], problems: [] };

function checkTargetsSafely(setting: Setting | undefined, around: AroundTargets): CheckedTargets {
  try {
    return checkTargets(setting, around);
  } catch (error) {
    return { ...noTargets, problems: [unreadableValue(targetsName, error)] };
  }
}

/** Objects from code may have getters that throw. */
export function unreadableValue(name: string, error: unknown): Problem {
  return { name, message: `cannot be read: ${kindOfError(error)}`, fix: 'Use plain objects and values' };
}

function checkTargets(setting: Setting | undefined, { fields, isOutboxOn }: AroundTargets): CheckedTargets {
  if (setting === undefined) return noTargets;
  const targets: TargetConfig[] = [];
  const targetProblems: TargetProblem[] = [];
  const warnings: Problem[] = [];
  if (!Array.isArray(setting.value)) {
    const fix = 'Write one entry with module and function for each function to capture';
    const got = describeType(setting.value);
    const problem = { name: setting.name, message: 'must be a list', got, where: setting.where(), fix };
    return { ...noTargets, problems: [problem] };
  }
  const firstOf = new Map<string, number>();
  for (const [index, entry] of Array.from(setting.value as unknown[]).entries()) {
    const one = checkTarget(entry, index, setting, isOutboxOn);
    if (one.problems.length === 0) checkKey(one, fields);
    const first = firstOf.get(one.id);
    if (first !== undefined) {
      const message = `is the same function as svc.targets[${first}]`;
      one.problems.push({ name: one.name, message, where: one.where(), fix: 'Keep one of them' });
    } else if (one.isNamed) firstOf.set(one.id, index);
    if (one.problems.length > 0)
      targetProblems.push({ index, id: printable(one.id), problems: one.problems });
    else {
      const target = one.target();
      targets.push(target);
      warnings.push(...warningsOf(target, one.name));
    }
  }
  return { targets, targetProblems, warnings, problems: [] };
}

function checkKey(one: CheckedTarget, fields: readonly PathRule[]): void {
  const target = one.target();
  for (const { field, message } of shownInClear(target, [...(target.pii ?? []), ...fields])) {
    const isKey = field === 'key';
    const fix = isKey ? 'Use another field for the key; the default is the event id' : 'Use another field';
    one.problems.push({ name: `${one.name}.${field}`, message, where: one.where(), fix });
  }
}

/** Fields of targets are not secret, so a plain name is shown: it may be one of another version. */
const shownField = (key: string): string =>
  /^[a-z][a-z_-]{0,39}$/i.test(key) ? key : shownName(key, fieldNames);

const fieldNames: readonly string[] = targetFields.map((field) => field.name);

interface CheckedTarget {
  readonly id: string;
  /** Module and function are known, so the id is unique. */
  readonly isNamed: boolean;
  readonly name: string;
  readonly problems: Problem[];
  readonly where: () => string;
  readonly target: () => TargetConfig;
}

function checkTarget(entry: unknown, index: number, setting: Setting, isOutboxOn: boolean): CheckedTarget {
  const name = `${setting.name}[${index}]`;
  const where = () => setting.whereItem(index);
  const problems: Problem[] = [];
  const values = new Map<string, unknown>();
  if (!isNamedValues(entry)) {
    const fix = 'Write an entry with module and function';
    problems.push({ name, message: 'must be an object', got: describeType(entry), where: where(), fix });
  } else {
    readFields(entry, name, where, values, problems);
    for (const { field, message, fix } of outboxMistakes(Object.fromEntries(values), isOutboxOn))
      problems.push({ name: `${name}.${field}`, message, where: where(), fix });
  }
  const module = values.get('module');
  const path = values.get('function');
  const isNamed = typeof module === 'string' && typeof path === 'string';
  const id = targetId(typeof module === 'string' ? module : '?', typeof path === 'string' ? path : '?');
  const target = () => targetOf(values, id, index, where);
  return { id, isNamed, name, problems, where, target };
}

function targetOf(values: Values, id: string, index: number, where: () => string): TargetConfig {
  const implied: Values = new Map(values.has('outbox') ? [['failOnError', true]] : []);
  const known = targetFields.map(({ name, default: byDefault }) => [
    name,
    values.get(name) ?? implied.get(name) ?? byDefault,
  ]);
  // Computed only for a message.
  const place = {
    id,
    index,
    get where() {
      return where();
    },
  };
  return Object.assign(place, Object.fromEntries(known)) as TargetConfig;
}

function readFields(
  entry: object,
  targetName: string,
  where: () => string,
  values: Map<string, unknown>,
  problems: Problem[],
): void {
  const spelled = new Map<string, string>();
  for (const [key, value] of Object.entries(entry)) {
    const field = targetFields.find(
      (one) => one.name === camelCase(key) && (key === one.name || key === kebabCase(one.name)),
    );
    const add = (problem: Omit<Problem, 'name' | 'where'>) =>
      problems.push({ name: `${targetName}.${shownField(key)}`, where: where(), ...problem });
    if (field === undefined) {
      const nearest = nearestName(key, fieldNames);
      const fix = nearest === undefined ? `Known are ${fieldNames.join(', ')}` : `Did you mean ${nearest}?`;
      add({ message: 'is not a known field of a target', fix });
      continue;
    }
    if (value === undefined) continue;
    if (value === null) {
      // The check for required fields reports it.
      if (field.required) continue;
      add(emptyValue(`${key}: "#result.id"`));
      continue;
    }
    const first = spelled.get(field.name);
    spelled.set(field.name, key);
    if (first !== undefined) {
      add({ message: `is given twice, as ${first} and as ${key}`, fix: 'Keep one of them' });
      continue;
    }
    const checked = checkField(field, value);
    if (!checked.ok)
      problems.push(...problemsOf(`${targetName}.${key}`, checked, { where, whereItem: where }));
    else if (checked.value !== undefined) values.set(field.name, checked.value);
  }
  for (const field of targetFields) {
    if (field.required && !spelled.has(field.name)) {
      problems.push({ name: `${targetName}.${field.name}`, message: 'is required', where: where() });
    }
  }
}

function checkField(field: TargetField, value: unknown): ReturnType<typeof checkValue> {
  if (field.type === 'rules') return checkRulesOf(value, true);
  if (field.type === 'headers') return checkHeadersOf(value);
  if (field.type === 'outbox') return checkOutboxOf(value);
  return checkValue({ ...field, type: field.type, name: field.name }, value);
}

function warningsOf(target: TargetConfig, name: string): Problem[] {
  const warnings: Problem[] = [];
  if (target.payload !== undefined && target.payloadIndex !== -1) {
    const message = 'has both payload and payloadIndex; svc uses payload';
    warnings.push({ name, message, where: target.where, fix: 'Keep one of them' });
  }
  if (target.phase === 'BEFORE' && target.payload === undefined && target.payloadIndex === -1) {
    const message = 'makes its event before the function returns: its payload is always null';
    warnings.push({ name, message, where: target.where, fix: 'Set payload or payloadIndex' });
  }
  if (target.phase === 'BEFORE' && target.callback !== undefined) {
    const message = 'makes its event before the function is called: callback has no effect';
    warnings.push({ name, message, where: target.where, fix: 'Remove callback, or use another phase' });
  }
  return warnings;
}

/** Checks `headers` of a target: expressions or functions by header name. */
function checkHeadersOf(value: unknown): Checked {
  if (!isNamedValues(value)) {
    const fix = 'Write name: expression for each header';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const given = Object.entries(value);
  const mistakes: Mistake[] = [];
  if (given.length > maxHeaders) mistakes.push({ message: `must hold at most ${maxHeaders} headers` });
  for (const [index, [name, expression]] of given.entries()) {
    // By number, because the name may be a misplaced secret.
    const header = `header ${index + 1}`;
    const problem = headerNameProblem(name);
    if (problem !== undefined) mistakes.push({ message: `${header} ${problem}` });
    if (typeof expression === 'function' || (typeof expression === 'string' && expression.trim() !== ''))
      continue;
    const message = `${header} must be an expression or a function`;
    const fix = 'Put it in quotes; a text needs a second pair: "\'web\'"';
    mistakes.push({ message, got: describeTyped(expression), fix });
  }
  return orMistakes(Object.fromEntries(given), mistakes);
}

type Name = keyof NonNullable<TargetFields<never>['outbox']>;

const outboxFields: Readonly<Record<Name, (value: unknown) => Checked>> = {
  aggregateType: checkAggregateType,
  aggregateId: (value) => checkValue({ ...optionOf('aggregateId'), orFunction: true }, value),
  result: (value) => checkValue({ ...optionOf('result'), type: 'enum', values: ['transaction'] }, value),
};
const outboxFieldNames = Object.keys(outboxFields) as Name[];
const requiredOutboxFields: readonly Name[] = ['aggregateType', 'aggregateId'];

function optionOf(name: Name) {
  return { name, type: 'string', format: 'text' } as const;
}

function checkAggregateType(value: unknown): Checked {
  const checked = checkValue(optionOf('aggregateType'), value);
  if (!checked.ok || fitsOutboxText(String(checked.value))) return checked;
  return { ok: false, message: `must have at most ${longestOutboxText} bytes in UTF-8` };
}

/** Checks `outbox` of a target. `false`: no outbox. */
export function checkOutboxOf(value: unknown): Checked {
  if (value === false) return { ok: true, value: undefined };
  if (!isNamedValues(value)) {
    const fix = 'Write { aggregateType: Order, aggregateId: "#result.id" }';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const found: Partial<Record<Name, unknown>> = {};
  const mistakes: Mistake[] = [];
  for (const [key, given] of Object.entries(value)) {
    const name = outboxFieldNames.find((one) => key === one || key === kebabCase(one));
    if (name === undefined) {
      const nearest = nearestName(camelCase(key), outboxFieldNames);
      const fix =
        nearest === undefined ? `Known are ${outboxFieldNames.join(', ')}` : `Did you mean ${nearest}?`;
      mistakes.push({ message: 'has an unknown field', fix });
    } else if (given === null) {
      // The check for required fields reports it.
      if (requiredOutboxFields.includes(name)) continue;
      const { message, fix } = emptyValue(`${key}: "…"`);
      mistakes.push({ message: `${name} ${message}`, fix });
    } else if (given !== undefined) {
      const checked = outboxFields[name](given);
      if (!checked.ok) mistakes.push({ ...checked, message: `${name} ${checked.message}` });
      found[name] = checked.ok ? checked.value : null;
    }
  }
  for (const name of requiredOutboxFields)
    if (found[name] === undefined) mistakes.push({ message: `${name} is required` });
  return orMistakes(found, mistakes);
}

type Given = Pick<TargetFields<unknown>, 'outbox' | 'afterCommit' | 'phase' | 'callback' | 'failOnError'>;

interface FieldMistake extends Mistake {
  readonly field: keyof Given;
  readonly fix: string;
}

/** Fields that cannot be combined with `outbox`, in the configuration or in code. `given` contains no defaults. */
export function outboxMistakes(given: Given, isOutboxOn: boolean): FieldMistake[] {
  const { outbox, afterCommit, phase = 'AFTER_RETURNING', callback, failOnError } = given;
  if (outbox === undefined) return [];
  const mistakes: FieldMistake[] = [];
  const add = (field: keyof Given, message: string, fix: string) => mistakes.push({ field, message, fix });
  if (!isOutboxOn) {
    const message = 'needs svc.outbox.enabled: true: a direct send would not be part of the transaction';
    add('outbox', message, 'Set svc.outbox.enabled: true, or remove outbox');
  }
  if (phase !== 'AFTER_RETURNING') {
    const message = `${phase} cannot be combined with outbox: an event of a transaction reports a call that succeeded`;
    add('phase', message, 'Use AFTER_RETURNING, or remove outbox');
  }
  if (callback !== undefined) {
    const message = 'cannot be combined with outbox: the transaction may be over when the callback is called';
    add('callback', message, 'Capture a function that returns a promise, or remove outbox');
  }
  if (afterCommit === true) {
    const message = 'cannot be combined with outbox, whose events are always sent after the commit';
    add('afterCommit', message, 'Keep one of them');
  }
  if (failOnError === false) {
    const message = 'false cannot be combined with outbox: an event that is not stored fails its transaction';
    add('failOnError', message, 'Remove failOnError, or remove outbox');
  }
  return mistakes;
}

/** Checks options that depend on each other. */
function checkAcrossOptions(
  input: CheckInput,
  targets: readonly TargetConfig[],
): Pick<Findings, 'problems' | 'warnings'> {
  const findings = openFindings(input);
  const { values, isGiven, isEmpty, add, warn, require } = findings;

  require('svc.broker.topic', topicRequired);

  const tls = ['ca-file', 'cert-file', 'key-file', 'server-name'].map((part) => `svc.broker.tls.${part}`);
  const [, cert = '', key = ''] = tls;
  if (isGiven(cert) !== isGiven(key))
    require(isGiven(cert) ? key : cert, 'is required: set certificate and key together');
  for (const name of tls.filter(isGiven)) {
    if (values.get('svc.broker.tls.enabled') === false) {
      warn(name, 'has no effect while svc.broker.tls.enabled is false', 'Set svc.broker.tls.enabled: true');
    } else if (name.endsWith('-file')) findings.mustBeReadable(name);
  }

  for (const [name, path] of namedFiles(findings)) {
    const why = changeableByOthers(resolve(input.baseDir, path));
    if (why === undefined) continue;
    const message = `names a file that others can change: ${why}`;
    warn(name, message, 'Change its owner or its mode: chown, chmod go-w');
  }

  if (values.get('svc.security.use-forwarded-headers') === true && isEmpty('svc.security.trusted-proxies')) {
    const message = 'has no effect: svc.security.trusted-proxies is empty';
    warn('svc.security.use-forwarded-headers', message, 'List the addresses of your proxies');
  }

  const address = String(values.get('management.server.address'));
  const publicUrl = 'management.server.public-url';
  if ((!isLoopback(address) || isGiven(publicUrl)) && !isGiven('management.server.token')) {
    const name = 'management.server.token';
    const [of, what, other] = isLoopback(address)
      ? [publicUrl, 'is set: behind the proxy, every client looks local', 'remove the proxy']
      : ['management.server.address', 'is not a loopback address', 'listen on 127.0.0.1'];
    const message = `is required when ${of} ${what}`;
    const fix = `Set the environment variable ${variableOf(name)}, or ${other}`;
    add(name, message, fix, of);
  }

  if (values.get('svc.broker.backup.s3-enabled') === true) {
    require('svc.broker.backup.s3-bucket', 's3Bucket is required when s3Enabled=true');
  }

  const format = values.get('svc.broker.backup.format');
  const order = 'svc.broker.backup.drain.order';
  if (values.get(order) === 'key' && ['event', 'record'].includes(String(format))) {
    const message = `key needs the journal, but svc.broker.backup.format is ${format}, and files keep no order`;
    add(order, message, 'Remove it, or set svc.broker.backup.format: journal');
  }

  const datasource = 'svc.outbox.datasource.url';
  const isOutboxOn = values.get('svc.outbox.enabled') === true;
  if (isOutboxOn && !isGiven(datasource)) {
    const message = 'is required when svc.outbox.enabled is true';
    const fix = `Set it in the file, or one of the environment variables ${variableOf(datasource)} and DATABASE_URL`;
    add(datasource, message, fix, 'svc.outbox.enabled');
  }

  if (isOutboxOn && values.get('svc.outbox.cleanup-enabled') === false) {
    const kept = ['svc.outbox.retention-days', 'svc.outbox.failed-retention-days'];
    for (const name of kept.filter((each) => isGiven(each) && values.get(each) !== 0)) {
      const message = 'has no effect while svc.outbox.cleanup-enabled is false';
      warn(name, message, 'Set svc.outbox.cleanup-enabled: true');
    }
  }

  const dlqTopic = values.get('svc.broker.dlq-topic');
  const ofTarget = targets.find(({ topic }) => topic !== undefined && topic === dlqTopic);
  if (dlqTopic !== undefined && (dlqTopic === values.get('svc.broker.topic') || ofTarget !== undefined)) {
    const name = 'svc.broker.dlq-topic';
    const of = ofTarget === undefined ? '' : ` of target ${ofTarget.id}`;
    const message = `dlqTopic must differ from topic${of}: dead letters would be read as events`;
    add(name, message, 'Name a separate topic, such as orders.events.dlq.v1');
  }
  checkKafkaClient(findings);
  checkSasl(findings);
  checkSerde(findings, targets);
  checkPii(findings, targets);
  return findings;
}

/** The configured files with keys, tokens, certificates and schemas, by option. */
function namedFiles({ values, settings }: Findings): [name: string, path: string][] {
  const single = [...settings.keys()].filter((name) => name.endsWith('-file'));
  const schemas = Object.values((values.get('svc.serde.schemas') ?? {}) as Names).flat();
  return [
    ...single.flatMap((name): [string, string][] => {
      const path = values.get(name);
      return typeof path === 'string' ? [[name, path]] : [];
    }),
    ...schemas.map((path): [string, string] => ['svc.serde.schemas', path]),
  ];
}

interface CheckInput {
  readonly values: Values;
  readonly invalid: ReadonlySet<string>;
  /** All given settings, valid or not. */
  readonly settings: ReadonlyMap<string, Setting>;
  readonly baseDir: string;
  /** Rules for personal data in code, if known. */
  readonly rules: readonly Pick<PathRule, 'strategy' | 'keyId'>[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The input of a check, and what it has found. */
interface Findings extends CheckInput {
  readonly problems: Problem[];
  readonly warnings: Problem[];
  isGiven(name: string): boolean;
  isEmpty(list: string): boolean;
  where(name: string): string | undefined;
  /** `at`: the option whose place is reported. Default: `name`. */
  add(name: string, message: string, fix?: string, at?: string): void;
  warn(name: string, message: string, fix?: string): void;
  /** Reports a missing option. */
  require(name: string, message: string): void;
  /** Reports an option that names an unreadable file. */
  mustBeReadable(name: string): void;
}

function openFindings(input: CheckInput): Findings {
  const { values, settings, baseDir } = input;
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const where = (name: string) => settings.get(name)?.where();
  const isGiven = (name: string) => settings.has(name);
  const add: Findings['add'] = (name, message, fix, at = name) =>
    problems.push({ name, message, where: where(at), fix });
  return {
    ...input,
    ...{ problems, warnings, where, isGiven, add },
    isEmpty: (list) => ((values.get(list) as readonly string[] | undefined) ?? []).length === 0,
    warn: (name, message, fix) => warnings.push({ name, message, where: where(name), fix }),
    require(name, message) {
      const fix = `Set ${name} in the file, or the environment variable ${variableOf(name)}`;
      if (!isGiven(name)) add(name, message, fix);
    },
    mustBeReadable(name) {
      const file = values.get(name);
      const why = typeof file === 'string' ? unreadable(resolve(baseDir, file)) : undefined;
      if (why !== undefined) add(name, why, 'Correct the path or its permissions');
    },
  };
}

/** Why a file cannot be read. `undefined`: it can be read. */
function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return undefined;
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`;
  }
}

/** Checks that the Kafka client supports its settings. */
function checkKafkaClient({ values, invalid, isEmpty, isGiven, add, warn }: Findings): void {
  const servers = 'svc.broker.bootstrap-servers';
  const given = values.get('svc.broker.client') as string | undefined;
  const client = given ?? usualClient(!isEmpty(servers));
  const { isKafka, cannotCompress } = clientOf(client);

  if (isKafka && isEmpty(servers) && !invalid.has(servers)) {
    const message = `bootstrapServers is required when client is ${client}`;
    const fix = `List brokers as host:port, or set ${variableOf(servers)} or KAFKA_BROKERS`;
    add(servers, message, fix, isGiven(servers) ? servers : 'svc.broker.client');
  }

  const compression = 'svc.broker.compression';
  const codec = values.get(compression) as KafkaCompression;
  if (cannotCompress.includes(codec)) {
    const fix = 'Use gzip or zstd, or svc.broker.client: platformatic';
    add(compression, `${client} cannot compress with ${codec}`, fix);
  }

  if (isKafka && values.get('svc.broker.acks') === '0') {
    const message =
      'counts an event as published once it is sent: events that Kafka refuses or loses reach no other tier';
    warn('svc.broker.acks', message, 'Use all, or 1');
  }
  const lease = 'svc.id-generator.lease';
  if (!isKafka && values.get(lease) === 'kafka') {
    const message = `worker ids can be leased in Kafka only if events go to Kafka, but client is ${client}`;
    add(lease, message, 'Use auto or host');
  }
}

const memberChain =
  /^#?[A-Za-z_$][\w$]*(?:\?\.|\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|"[^"]*")\]|\?\.[A-Za-z_$][\w$]*)*$/;
const quotedTexts = /'(?:[^']|'')*'|"(?:[^"]|"")*"/g;

/** Fields of a target (key, aggregate id, headers) that would publish a protected value in clear, with a message. */
export function shownInClear(
  { key, outbox, headers, payload, payloadIndex, params }: KeyFields,
  rules: readonly PathRule[],
): { readonly field: string; readonly message: string }[] {
  const inClear = [
    ['key', key],
    ['outbox.aggregateId', outbox?.aggregateId],
    ...Object.entries(headers ?? {}).map(([name, value]) => [`headers.${name}`, value]),
  ];
  return (inClear as [string, unknown][]).flatMap(([field, value]) => {
    const rule =
      typeof value === 'string' ? ruleOf(value, { payload, payloadIndex, params }, rules) : undefined;
    if (rule === undefined) return [];
    const { path, strategy } = rule;
    const what = path === '' ? 'the rule for the payload' : `the rule for ${path}`;
    // A text literal may be a secret.
    const shown = printable((value as string).replace(quotedTexts, "'…'"));
    return [{ field, message: `shows in clear what ${what} protects (${strategy}): "${shown}"` }];
  });
}

/** The rule for a value that the expression reads. Functions cannot be checked here; their values are compared at each event. */
function ruleOf(
  expression: string,
  { payload, payloadIndex, params }: Pick<KeyFields, 'payload' | 'payloadIndex' | 'params'>,
  rules: readonly PathRule[],
): PathRule | undefined {
  const base =
    payload ?? (payloadIndex === undefined || payloadIndex < 0 ? 'result' : `args[${payloadIndex}]`);
  const sources = typeof base === 'string' ? readsOf(base, params) : [];
  // A plain field elsewhere is compared at each event. A value derived from a field would not be recognized there.
  const isGuessed = typeof base !== 'string' || !memberChain.test(expression.trim());
  const reads = readsOf(expression, params);
  return rules.find(({ path }) => {
    const steps = path === '' ? [] : parseRulePath(path);
    if (typeof steps === 'string') return false;
    const isNamed = typeof steps[0] === 'object';
    const isDeep = steps[0] === '**' && typeof steps[1] === 'object';
    return reads.some(
      ({ keys }) =>
        (isDeep && covers(steps, keys)) ||
        (isGuessed && isNamed && covers(steps, keys.slice(keys[0] === 'args' ? 2 : 1))) ||
        sources.some(
          (source) =>
            source.keys.every((part, index) => part === keys[index]) &&
            covers(steps, [...source.labels, ...keys.slice(source.keys.length)]),
        ),
    );
  });
}

/** A value that an expression reads. */
interface Read {
  /** Starts with the name of a value of the call. `anyKey`: a computed key. */
  readonly keys: readonly string[];
  /** Keys of the enclosing map literals. */
  readonly labels: readonly string[];
}

type Paths = readonly (readonly string[])[];

const anyKey = '*';
const firstOfName = lazyPattern(String.raw`^#?[\p{ID_Start}$_]`, 'u');
const isName = (part = ''): boolean => firstOfName().test(part);
const isText = (part = ''): boolean => /^['"]/.test(part);
const unquoted = (part: string): string => part.replace(/^(['"])(.*)\1$/s, '$2');

const patternToken = lazyPattern(
  String.raw`'(?:[^']|'')*'|"(?:[^"]|"")*"|#?[\p{ID_Start}$_][\p{ID_Continue}$]*|\d+(?:\.\d+)?|\?\.|\?:|\?\?|\S`,
  'gu',
);

/** Reads any text to its end. The compiler checks the syntax. */
function readsOf(text: string, params: readonly string[] = []): readonly Read[] {
  const tokens = text.match(patternToken()) ?? [];
  const reads: Read[] = [];
  let at = 0;

  function rootOf(name: string): readonly string[] {
    const position = /^[pa](\d+)$/.exec(name)?.[1] ?? String(params.lastIndexOf(name));
    return position === '-1' ? [name] : ['args', position];
  }

  /** Reads up to and including the closing symbol. Returns the paths of its operands. */
  function sequence(close: string | undefined, labels: readonly string[], element: Paths): Paths {
    const ends: (readonly string[])[] = [];
    let inside = labels;
    for (let isFirst = true; at < tokens.length; isFirst = false) {
      const part = tokens[at++] as string;
      if (part === close) break;
      if (close === '}' && (isFirst || tokens[at - 2] === ',') && tokens[at] === ':') {
        inside = [...labels, unquoted(part)];
        at++;
      } else if (part === '(') ends.push(...accesses(sequence(')', inside, element), inside, element));
      else if (part === '{') ends.push(...accesses(sequence('}', inside, element), inside, element));
      else if (part === '#this' && element.length > 0) ends.push(...accesses(element, inside, element));
      else if (isName(part)) {
        const isOfElement = element.length > 0 && !part.startsWith('#');
        const start = isOfElement ? append(element, part) : [rootOf(part.replace(/^#/, ''))];
        ends.push(...accesses(start, inside, element));
      } else if (isText(part)) accesses([], inside, element);
    }
    return ends;
  }

  /** Reads what follows a value: properties, elements, methods, projections. */
  function accesses(start: Paths, labels: readonly string[], element: Paths): Paths {
    let paths = start;
    for (;;) {
      const isIndex = tokens[at] === '[' || (tokens[at] === '?.' && tokens[at + 1] === '[');
      const next = tokens[at + 1] ?? '';
      if (isIndex) {
        at += tokens[at] === '[' ? 1 : 2;
        const key = tokens[at] ?? '';
        const isLiteral = tokens[at + 1] === ']' && (isText(key) || /^\d/.test(key));
        sequence(']', labels, element);
        paths = append(paths, isLiteral ? unquoted(key) : anyKey);
      } else if (tokens[at] !== '.' && tokens[at] !== '?.') break;
      else if ((next === '!' || next === '?') && tokens[at + 2] === '[') {
        at += 3;
        const found = sequence(']', labels, append(paths, '0'));
        if (next === '!') paths = found;
      } else if (isName(next) && tokens[at + 2] === '(') {
        at += 3;
        const getter = /^get([A-Z])(.*)$/.exec(next);
        if (getter !== null) paths = append(paths, `${getter[1]?.toLowerCase()}${getter[2]}`);
        sequence(')', labels, element);
      } else {
        at += 2;
        paths = append(paths, next);
      }
    }
    for (const keys of paths) reads.push({ keys, labels });
    return paths;
  }

  sequence(undefined, [], []);
  return reads;
}

function append(paths: Paths, key: string): Paths {
  return paths.map((keys) => [...keys, key]);
}

/** Whether a rule covers the value at these keys or a parent of it. */
function covers(steps: readonly PathStep[], keys: readonly string[]): boolean {
  const [step, ...rest] = steps;
  if (step === undefined) return true;
  if (step === '**') return covers(rest, keys) || (keys.length > 0 && covers(steps, keys.slice(1)));
  const [key, ...more] = keys;
  if (key === undefined) return false;
  if (step === '*' || key === anyKey || step.key === key) return covers(rest, more);
  return /^\d+$/.test(key) && covers(steps, more);
}

type Rule = Pick<PathRule, 'strategy' | 'keyId'>;

const cryptoOptions = 'svc.pii.crypto';
const kmsOptions = 'svc.pii.kms';

/** Checks the keys and the salt that rules need. A value that cannot be protected later is refused here. */
function checkPii(findings: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, invalid, isGiven, add } = findings;
  if (values.get('svc.pii.enabled') === false) {
    const message = 'has no effect while svc.pii.enabled is false: personal data is published in clear';
    for (const name of settings.keys())
      if (name.startsWith('svc.pii.') && name !== 'svc.pii.enabled') findings.warn(name, message);
    return;
  }

  const rules: readonly Rule[] = [
    ...findings.rules,
    ...(values.get('svc.pii.fields') as readonly PathRule[]),
    ...targets.flatMap(({ pii = [] }) => pii),
  ];
  const key = values.get(`${cryptoOptions}.default-key`) as string | undefined;
  const wrong = key === undefined ? undefined : wrongKey(key);
  if (wrong !== undefined)
    add(`${cryptoOptions}.default-key`, wrong, 'Make one with openssl rand -base64 32');
  if (values.get(`${kmsOptions}.enabled`) === true) checkService(findings, rules);
  else if (!invalid.has(`${cryptoOptions}.keys`) && !invalid.has(`${cryptoOptions}.default-key`))
    checkConfigured(findings, rules, key);

  const hashes = rules.some(({ strategy }) => strategy === 'HASH');
  const mustSalt = values.get(`${cryptoOptions}.require-salt`) ?? findings.env.NODE_ENV === 'production';
  if (hashes && mustSalt === true && !isGiven(`${cryptoOptions}.salt`)) {
    const why = isGiven(`${cryptoOptions}.require-salt`) ? 'require-salt is set' : 'NODE_ENV is production';
    add(
      `${cryptoOptions}.salt`,
      `is required to hash: ${why}`,
      `Set ${variableOf(`${cryptoOptions}.salt`)} or PII_HASH_SALT`,
    );
  }
}

function checkConfigured(
  { values, add }: Findings,
  rules: readonly Rule[],
  defaultKey: string | undefined,
): void {
  const keys = (values.get(`${cryptoOptions}.keys`) ?? []) as readonly EncryptionKeyConfig[];
  const encrypting = rules.filter(({ strategy }) => strategy === 'ENCRYPT');
  const hasDefault =
    defaultKey !== undefined || keys.length === 1 || keys.some(({ status }) => status === 'primary');
  if (defaultKey !== undefined && keys.some(({ id }) => id === 'default')) {
    const message = 'has the id "default", which svc.pii.crypto.default-key also has';
    add(`${cryptoOptions}.keys`, message, 'Remove one of them');
  }
  if (!hasDefault && encrypting.some(({ keyId }) => keyId === undefined)) {
    const message = 'PII encryption key is not configured';
    const fix = 'Set PII_ENCRYPTION_KEY to Base64 of 32 random bytes (openssl rand -base64 32)';
    add(`${cryptoOptions}.default-key`, message, fix, `${cryptoOptions}.keys`);
  }
  const usable = keys.filter(({ status }) => status !== 'decrypt').map(({ id }) => id);
  if (defaultKey !== undefined) usable.push('default');
  for (const id of new Set(encrypting.map(({ keyId }) => keyId))) {
    if (id === undefined || usable.includes(id)) continue;
    const message = `has no key with the id "${id}" to encrypt with, which a rule names`;
    add(`${cryptoOptions}.keys`, message, 'Add it, or correct the keyId of the rule');
  }
}

function checkService({ values, isGiven, add }: Findings, rules: readonly Rule[]): void {
  const require = (name: string, message: string) => {
    if (!isGiven(name)) add(name, message, `Set ${name}`, `${kmsOptions}.enabled`);
  };
  require(`${kmsOptions}.type`, 'is required when svc.pii.kms.enabled is true: aws or vault');
  for (const name of [`${cryptoOptions}.default-key`, `${cryptoOptions}.keys`]) {
    const message = 'is set, although svc.pii.kms.enabled is true: svc must not guess which of them encrypts';
    if (isGiven(name)) add(name, message, 'Remove one of them');
  }
  const type = values.get(`${kmsOptions}.type`);
  const names = (values.get(`${kmsOptions}.keys`) ?? {}) as Names;
  const usesDefault = rules.some(({ strategy, keyId }) => strategy === 'ENCRYPT' && keyId === undefined);
  if (usesDefault && !Object.hasOwn(names, 'default')) {
    const message = 'PII encryption key is not configured: rules without keyId need it';
    if (type === 'aws') require(`${kmsOptions}.aws.default-key-arn`, message);
    if (type === 'vault') require(`${kmsOptions}.vault.default-key-path`, message);
  }
  if (type === 'vault') {
    const [token, file] = [`${kmsOptions}.vault.token`, `${kmsOptions}.vault.token-file`];
    if (!isGiven(file)) require(token, 'is required for Vault (or token-file)');
    else if (isGiven(token)) add(file, `is given beside ${token}`, 'Keep one of them');
  }
}

const saslPrefix = 'svc.broker.sasl.';
const byToken = 'oauthbearer';
const inTokens = (name: string): string => `${saslPrefix}${byToken}.${name}`;
const tokenSources = ['token-endpoint-url', 'token-file', 'token'].map(inTokens);
const ofEndpoint = ['client-id', 'client-secret'].map(inTokens);
const userOptions = ['username', 'password'].map((name) => saslPrefix + name);

/** Checks the authentication with the brokers, by mechanism. */
function checkSasl(findings: Findings): void {
  const { values, settings, invalid, isGiven, require, warn } = findings;
  const mechanismName = `${saslPrefix}mechanism`;
  // An empty list has no effect.
  const isEmpty = (name: string): boolean => Array.isArray(values.get(name)) && `${values.get(name)}` === '';
  const all = [...settings.keys()].filter((name) => name.startsWith(saslPrefix) && !isEmpty(name));
  if (all.length === 0) return;
  require(mechanismName, 'is required to sign in to the brokers');
  if (invalid.has(mechanismName)) return;
  const mechanism = values.get(mechanismName) as string | undefined;
  const isToken = mechanism === byToken;
  const isTokenOnly = mechanism === undefined && !userOptions.some(isGiven);

  if (!isToken && !isTokenOnly)
    for (const name of userOptions) require(name, 'is required to sign in to the brokers');
  if (isToken) checkTokens(findings, mechanismName);
  for (const name of mechanism === undefined ? [] : isToken ? userOptions : all.filter(isOfTokens))
    if (isGiven(name)) warn(name, `has no effect with mechanism ${mechanism}`, 'Remove it');

  if (values.get('svc.broker.tls.enabled') === false && mechanism !== undefined) {
    const message = `${inClear[mechanism] ?? guessable}, because svc.broker.tls.enabled is false`;
    warn(mechanismName, message, 'Set svc.broker.tls.enabled: true');
  }
}

function checkTokens({ values, isGiven, add, require, warn }: Findings, mechanismName: string): void {
  const given = tokenSources.filter(isGiven);
  const [endpoint = ''] = tokenSources;
  if (given.length === 0)
    add(mechanismName, `${byToken} needs a token`, `Set one of ${tokenSources.join(', ')}`);
  for (const name of given.slice(1))
    add(
      name,
      `cannot be combined with ${given[0]}: there can be only one source of tokens`,
      'Keep one of them',
    );
  if (isGiven(endpoint)) for (const name of ofEndpoint) require(name, 'is required by the token endpoint');
  if (String(values.get(endpoint)).startsWith('http:'))
    warn(endpoint, 'sends the client secret unencrypted', 'Use an https address');
}

const inClear: Readonly<Record<string, string>> = {
  plain: 'sends the password unencrypted',
  [byToken]: 'sends the token unencrypted',
};
/** SCRAM sends no password, but enough to test guesses, and the events themselves are unencrypted. */
const guessable = 'lets anyone on the network guess passwords and read the events';

const isOfTokens = (name: string): boolean => name.startsWith(inTokens(''));

const serdeType = 'svc.serde.type';
const ofSchemas = 'svc.serde.schemas';
const ofRegistry = (part: string): string => `svc.serde.schema-registry-${part}`;

/** Checks the limits of CloudEvents. */
function checkCloudEvents({ values, isGiven, add, warn }: Findings, targets: readonly TargetConfig[]): void {
  const envelope = 'svc.serde.envelope';
  if (values.get(envelope) !== 'cloudevents') {
    const given = ['mode', 'source'].map((part) => `svc.serde.cloudevents.${part}`).find(isGiven);
    if (given !== undefined)
      warn(given, `has no effect while ${envelope} is svc`, `Set ${envelope}: cloudevents`);
    return;
  }
  if (values.get(serdeType) === 'AVRO') {
    const message = `must be svc when ${serdeType} is AVRO: the schemas of svc hold its own envelope`;
    add(envelope, message, `Keep one of them: remove ${envelope}, or ${serdeType}`);
  }
  for (const { index, eventType, headers } of targets) {
    const name = `svc.targets[${index}]`;
    const own = Object.keys(headers ?? {}).some(isAttributeHeader);
    if (own) {
      const message = `has a header that begins with ${attributePrefix}, the prefix of CloudEvents attributes`;
      add(`${name}.headers`, message, 'Give it another name', targetsName);
    }
    if (eventType !== undefined && !isAttributeText(eventType)) {
      const message = 'holds a control or other character that CloudEvents attributes do not allow';
      add(`${name}.eventType`, message, 'Give it another name', targetsName);
    }
  }
}

/** Checks the settings of AVRO, and settings without effect with JSON. */
function checkSerde(input: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, baseDir, ...findings } = input;
  const { isGiven, where, add, warn } = findings;
  checkCloudEvents(input, targets);
  if (values.get(serdeType) !== 'AVRO') {
    // A variable that other programs use, too, causes no warning.
    const isShared = (name: string): boolean => /(?<!SVC_SERDE_)SCHEMA_REGISTRY_URL/.test(where(name) ?? '');
    const given = [...settings.keys()].find((name) => name.startsWith('svc.serde.schema') && !isShared(name));
    if (given !== undefined)
      warn(given, 'has no effect while svc.serde.type is JSON', 'Set svc.serde.type: AVRO');
    return;
  }
  const url = ofRegistry('url');
  if (values.get(url) === undefined) {
    const fix = `Set ${url}, such as http://localhost:8081`;
    add(url, 'is required when svc.serde.type is AVRO', fix, serdeType);
  }
  const client = values.get('svc.broker.client') as string | undefined;
  if (clientOf(client ?? usualClient(isGiven('svc.broker.bootstrap-servers'))).isFiles) {
    const message = 'must be JSON if events go to files (svc.broker.client: file)';
    const fix =
      'Send them to Kafka (svc.broker.bootstrap-servers), or set the environment variable SVC_SERDE_TYPE=JSON';
    add(serdeType, message, fix);
  }
  const [first, second] = ['username', 'token', 'token-file'].filter((way) => isGiven(ofRegistry(way)));
  if (second !== undefined) {
    const message = `is a second way to sign in, besides schema-registry-${first}`;
    add(ofRegistry(second), message, 'Keep one of them');
  }
  const address = String(values.get(url) ?? '');
  if (
    first !== undefined &&
    address.startsWith('http:') &&
    !isLoopback(new URL(address).hostname.replace(/^\[|\]$/g, ''))
  ) {
    const what = first === 'username' ? 'password' : 'token';
    warn(url, `sends the ${what} of the schema registry unencrypted`, 'Use an https address');
  }
  for (const part of ['token-file', 'ca-file']) findings.mustBeReadable(ofRegistry(part));
  for (const [eventType, [file = '', ...more]] of Object.entries((values.get(ofSchemas) ?? {}) as Names)) {
    const why = more.length > 0 ? 'names more than one file' : noSchema(resolve(baseDir, file));
    if (why === undefined) continue;
    add(ofSchemas, `of event type ${eventType} ${why}`, 'Name one file with an Avro schema (.avsc)');
  }
}

/** The Avro library checks the types of the schema. */
function noSchema(path: string): string | undefined {
  const why = unreadable(path);
  if (why !== undefined) return why;
  try {
    const schema: unknown = JSON.parse(readBoundedSync(path).toString());
    return typeof schema === 'object' && schema !== null ? undefined : 'names a file without an Avro schema';
  } catch {
    return 'names a file that is not JSON';
  }
}

/** `./src\\orders.ts`, `createOrder` -> `src/orders.ts#createOrder` */
function targetId(module: string, functionPath: string): string {
  return `${module.replaceAll('\\', '/').replace(/^(\.\/)+/, '')}#${functionPath}`;
}

/** The fields that record key, aggregate id and headers depend on, in the configuration and in code. */
type KeyFields = Pick<TargetFields<unknown>, 'key' | 'outbox' | 'headers' | 'payload' | 'payloadIndex'> & {
  /** Parameter names, if known. */
  readonly params?: readonly string[] | undefined;
};

/** `svc.broker.request-timeout-ms` -> `requestTimeoutMs`, for messages. */
function shortName(name: string): string {
  return camelCase(name.slice(name.lastIndexOf('.') + 1));
}

/**
 * Warnings about event types with a schema in `svc.serde.schemas` that nothing publishes.
 *
 * @param published the known event types
 * @param areAll whether `published` is complete. If not, only a near miss of an event type without a schema is reported
 */
export function unusedSchemas(
  { serde }: { readonly serde: { readonly type: string; readonly schemas?: object | undefined } },
  published: Iterable<string>,
  areAll: boolean,
): Problem[] {
  const types = new Set(published);
  const named = serde.type === 'AVRO' ? Object.keys(serde.schemas ?? {}) : [];
  const bare = [...types].filter((each) => !named.includes(each));
  return named
    .filter((eventType) => !types.has(eventType))
    .flatMap((eventType) => {
      const [meant] = nearestNames(eventType, bare, areAll ? { count: 1 } : { count: 1, limit: 1 });
      if (meant === undefined && !areAll) return [];
      const of = meant === undefined ? '' : `: ${meant} has no schema`;
      return {
        name: 'svc.serde.schemas',
        message: `has a schema for ${eventType}, but no target publishes that event type${of}`,
        fix: meant === undefined ? 'Correct the event type or remove it' : `Did you mean ${meant}?`,
      };
    });
}

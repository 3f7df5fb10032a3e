import { keyIdPattern, keyIdProblem, keyLengthBytes, readKeyText } from '../../ground/event-fields.ts';
import { isNamedValues, nearestName } from '../../ground/names.ts';
import {
  type PathRule,
  parseRulePath,
  piiLevels,
  piiStrategies,
  piiTypes,
  typeOfName,
} from '../../ground/pii-rule.ts';
import { camelCase } from '../schema/option.ts';
import { describeTyped, describeValue, type Mistake, orMistakes, shownName } from './problem.ts';

/** Rules, or everything that is wrong with them, as problems say it. */
type CheckedRules = ReturnType<typeof orMistakes<readonly PathRule[]>>;

const ruleFields = ['type', 'strategy', 'level', 'keyId', 'masker'] as const;
type RuleParts = { readonly [field in (typeof ruleFields)[number]]?: string };
/** Notes a mistake; reading goes on. */
type Say = (message: string, got?: string, fix?: string) => void;

/**
 * Path rules in any of their forms: a list of paths (`customer.email`), of `path=TYPE:STRATEGY:LEVEL`, and of objects with `path`;
 * or an object of paths. A text (from the environment) is JSON, or paths with commas between them.
 *
 * @param forWhole accepts `{ type: EMAIL }` and `EMAIL` as well, for the payload as a whole
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
    say(`says of path ${index + 1} neither a type nor a rule`, describeTyped(says));
    return [];
  });
}

/** A path that is none is said, and stands for the payload as a whole. */
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
      say(`has a rule whose ${name} is no text`, describeTyped(value));
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
  say(`has a rule whose ${name} is none of ${words.join(', ')}`, describeValue(text), fix);
  return undefined;
}

/** One of `svc.pii.crypto.keys`. */
export interface EncryptionKeyConfig {
  readonly id: string;
  readonly key: string;
  readonly status: 'primary' | 'decrypt' | undefined;
}

const fields = ['id', 'key', 'status'];
/** Readers try them one by one. */
const most = 8;

/** `svc.pii.crypto.keys`, and all that is wrong with it; a text is JSON. No message holds a key. */
export function checkKeys(given: unknown): ReturnType<typeof orMistakes<readonly EncryptionKeyConfig[]>> {
  const value = typeof given === 'string' ? parsed(given) : given;
  const only = (message: string) => orMistakes([], [{ message }]);
  if (value === undefined) return only('is not valid JSON');
  if (!Array.isArray(value)) return only('must be a list of { id, key, status }');
  if (value.length > most) return only(`must hold at most ${most} keys`);
  const keys: EncryptionKeyConfig[] = [];
  const mistakes: Mistake[] = [];
  for (const [index, item] of Array.from(value as unknown[]).entries()) {
    const key = checkKey(item, `item ${index + 1}`);
    if (typeof key === 'string') mistakes.push({ message: key });
    else if (keys.some(({ id }) => id === key.id))
      mistakes.push({ message: `item ${index + 1} has an id that stands there twice` });
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
    return `${name} must have the status primary or decrypt, or none`;
  return { id, key, status: known ?? undefined };
}

/** What is wrong with a key, or `undefined`. The kind of error is the one that the specification names. */
export function wrongKey(key: string): string | undefined {
  const { bytes, spelling } = readKeyText(key);
  if (bytes.length === keyLengthBytes) return undefined;
  return `must be exactly ${keyLengthBytes} bytes, written in Base64; found ${bytes.length}, read as ${spelling} (IllegalArgumentException)`;
}

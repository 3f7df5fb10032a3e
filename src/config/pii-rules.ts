import { type PathRule, piiLevels, piiStrategies, piiTypes, typeOfName } from '../field-rule.ts';
import { parseRulePath } from '../rule-path.ts';
import { nearestName } from './nearest.ts';
import { camelCase } from './option.ts';
import { describeTyped, describeValue, printable } from './problem.ts';

/** Rules, or what is wrong with them, as a problem says it. */
export type CheckedRules =
  | { readonly ok: true; readonly value: readonly PathRule[] }
  | { readonly ok: false; readonly message: string; readonly got: string | undefined; readonly fix?: string };

class BadRule extends Error {
  readonly got: string | undefined;
  readonly fix: string | undefined;
  constructor(message: string, got?: string, fix?: string) {
    super(message);
    this.got = got;
    this.fix = fix;
  }
}

const ruleFields = ['type', 'strategy', 'level', 'keyId', 'masker'] as const;
type RuleParts = { readonly [field in (typeof ruleFields)[number]]?: string };

/**
 * Path rules in any of their forms: a list of paths (`customer.email`), of `path=TYPE:STRATEGY:LEVEL`, and of objects with `path`;
 * or an object of paths. A text (from the environment) is JSON, or paths with commas between them.
 *
 * @param forWhole accepts `{ type: EMAIL }` and `EMAIL` as well, for the payload as a whole
 */
export function checkRulesOf(value: unknown, forWhole: boolean): CheckedRules {
  try {
    return { ok: true, value: read(value, forWhole) };
  } catch (error) {
    if (!(error instanceof BadRule)) throw error;
    const { message, got, fix } = error;
    return { ok: false, message, got, ...(fix === undefined ? {} : { fix }) };
  }
}

function read(value: unknown, forWhole: boolean): PathRule[] {
  if (value === false && forWhole) return [];
  if (typeof value === 'string') return readText(value.trim(), forWhole);
  if (Array.isArray(value)) return Array.from(value as unknown[]).flatMap(readItem);
  if (typeof value !== 'object' || value === null)
    throw new BadRule('must be a list of rules', describeTyped(value));
  if (forWhole && isRule(value)) return [rule('', readParts(value))];
  return readPaths(value);
}

function readText(text: string, forWhole: boolean): PathRule[] {
  if (/^[[{]/.test(text)) {
    try {
      return read(JSON.parse(text), forWhole);
    } catch (error) {
      throw error instanceof BadRule ? error : new BadRule('is not valid JSON');
    }
  }
  if (forWhole && (piiTypes as readonly string[]).includes(text.split(':')[0]?.toUpperCase() ?? ''))
    return [rule('', partsOf(text))];
  return text
    .split(',')
    .filter((item) => item.trim() !== '')
    .map(readShort);
}

function readItem(item: unknown): PathRule[] {
  if (typeof item === 'string') return [readShort(item)];
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    throw new BadRule('must hold paths, or objects with path', describeTyped(item));
  if (!Object.hasOwn(item, 'path')) return readPaths(item);
  const { path, ...parts } = item as { path: unknown };
  if (typeof path !== 'string') throw new BadRule('must hold paths that are strings', describeTyped(path));
  return [rule(checkPath(path), readParts(parts))];
}

function readShort(text: string): PathRule {
  const [path = '', says] = text.split(/=(?=[^="'\]]*$)/);
  return rule(checkPath(path), says === undefined ? {} : partsOf(says));
}

/** `{ customer.email: EMAIL, '**.ssn': { type: NATIONAL_ID, strategy: HASH } }` */
function readPaths(paths: object): PathRule[] {
  return Object.entries(paths).map(([path, says]) => {
    if (typeof says === 'string') return rule(checkPath(path), partsOf(says));
    if (says === null) return rule(checkPath(path), {});
    if (typeof says === 'object' && !Array.isArray(says)) return rule(checkPath(path), readParts(says));
    throw new BadRule(`says of ${printable(path)} neither a type nor a rule`, describeTyped(says));
  });
}

function checkPath(path: string): string {
  const steps = parseRulePath(path);
  if (typeof steps === 'string') throw new BadRule(`has a path that ${steps}`, describeValue(path));
  return path.trim();
}

/** `EMAIL:ENCRYPT:NORMAL` */
function partsOf(text: string): RuleParts {
  const [type, strategy, level, ...more] = text.split(':').map((part) => part.trim());
  if (more.length > 0) throw new BadRule('has a rule that is not TYPE:STRATEGY:LEVEL', describeValue(text));
  return { ...(type && { type }), ...(strategy && { strategy }), ...(level && { level }) };
}

function isRule(value: object): boolean {
  const names = Object.keys(value).map(camelCase);
  return names.length > 0 && names.every((name) => (ruleFields as readonly string[]).includes(name));
}

function readParts(given: object): RuleParts {
  const parts: Record<string, string> = {};
  for (const [key, value] of Object.entries(given)) {
    const name = camelCase(key);
    if (!(ruleFields as readonly string[]).includes(name)) {
      const nearest = nearestName(key, ruleFields);
      const fix =
        nearest === undefined ? `Known are path, ${ruleFields.join(', ')}` : `Did you mean ${nearest}?`;
      throw new BadRule(`has a rule with the unknown field ${printable(key)}`, undefined, fix);
    }
    if (value === null || value === undefined) continue;
    if (typeof value !== 'string' || value.trim() === '')
      throw new BadRule(`has a rule whose ${name} is no text`, describeTyped(value));
    parts[name] = value.trim();
  }
  return parts;
}

function rule(path: string, parts: RuleParts): PathRule {
  const { keyId, masker } = parts;
  if (keyId !== undefined && !/^[A-Za-z0-9_-]{1,128}$/.test(keyId))
    throw new BadRule(
      'has a rule with an Invalid key id',
      undefined,
      'Use letters, digits, underscores and hyphens',
    );
  const last = parseRulePath(path);
  const named = typeof last === 'string' ? undefined : last.findLast((step) => typeof step === 'object');
  return {
    path,
    type: word('type', parts.type, piiTypes) ?? typeOfName(typeof named === 'object' ? named.key : ''),
    strategy: word('strategy', parts.strategy, piiStrategies) ?? 'MASK',
    level: word('level', parts.level, piiLevels) ?? 'NORMAL',
    keyId,
    masker,
  };
}

function word<T extends string>(name: string, text: string | undefined, words: readonly T[]): T | undefined {
  if (text === undefined) return undefined;
  const found = words.find((one) => one === text.toUpperCase());
  if (found !== undefined) return found;
  const nearest = nearestName(text.toUpperCase(), words);
  throw new BadRule(
    `has a rule whose ${name} is none of ${words.join(', ')}`,
    describeValue(text),
    nearest && `Did you mean ${nearest}?`,
  );
}

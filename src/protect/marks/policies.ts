// marks/: which rule applies to a value: marks of classes, paths of the configuration.

import type { PathRule } from '../../ground/pii-rule.ts';
import type { Logger } from '../../observe/logger.ts';
import { readingsOf } from '../clear-texts.ts';
import { type Detect, element, nameLike, type Step } from '../protect.ts';
import { compilePolicy, type Policy } from './policy.ts';

export interface Policies {
  /** Called once per event. */
  policyOf(eventType: string): Policy;
  /** Adds rules for one event type, whichever target or call publishes it. They precede the general rules. */
  add(eventType: string, rules: readonly PathRule[], owner: string): void;
  /** Rules whose path has matched no payload, though events of their type were published. */
  unmet(): readonly UnmetRule[];
}

/** A rule that may be mistyped. A path may be absent from any single payload, so only the count tells. */
export interface UnmetRule {
  readonly path: string;
  /** The target that configures it, or `svc.pii.fields`. */
  readonly owner: string;
  /** Events that the rule applies to. */
  readonly events: number;
}

interface PoliciesOptions {
  /** `svc.pii.fields`, for all events. */
  readonly general: readonly PathRule[];
  /** Called once per rule that has matched nothing in `enoughEvents`. */
  readonly onUnmet?: (rule: UnmetRule) => void;
}

/** Events after which a path without a match is reported: of its event type, and of all types. */
export const enoughEvents = { ofType: 1_000, ofAll: 10_000 };

interface Entry {
  policy: Policy;
  events: number;
  readonly own: readonly PathRule[];
}

/** The policy of each event type, compiled when its rules are known. */
export function createPolicies({ general, onUnmet }: PoliciesOptions): Policies {
  const met = new Set<PathRule>();
  const said = new Set<PathRule>();
  const owners = new Map<PathRule, string>();
  const compile = (rules: readonly PathRule[]) => compilePolicy(rules, (rule) => met.add(rule));
  const base: Entry = { policy: compile(general), events: 0, own: [] };
  const entries = new Map<string, Entry>();
  let total = 0;

  function unmetOf(rules: readonly PathRule[], events: number): UnmetRule[] {
    const left = events === 0 ? [] : rules.filter((rule) => !met.has(rule) && !said.has(rule));
    return left.map((rule) => ({ path: rule.path, owner: owners.get(rule) ?? 'svc.pii.fields', events }));
  }

  function tell(rules: readonly PathRule[], events: number): void {
    for (const rule of unmetOf(rules, events)) onUnmet?.(rule);
    for (const rule of rules) said.add(rule);
  }

  return {
    policyOf(eventType) {
      const entry = entries.size === 0 ? base : (entries.get(eventType) ?? base);
      if (++entry.events === enoughEvents.ofType) tell(entry.own, entry.events);
      if (++total === enoughEvents.ofAll) tell(general, total);
      return entry.policy;
    },

    add(eventType, rules, owner) {
      if (rules.length === 0) return;
      for (const rule of rules) owners.set(rule, owner);
      const before = entries.get(eventType);
      const own = [...(before?.own ?? []), ...rules];
      entries.set(eventType, { policy: compile([...own, ...general]), events: before?.events ?? 0, own });
    },

    unmet: () => [
      ...[...entries.values()].flatMap(({ own, events }) => unmetOf(own, events)),
      ...unmetOf(general, total),
    ],
  };
}

/** Paths that are remembered and reported at most. */
const mostPaths = 1000;
const longestText = 1024;

/**
 * The report mode: warns about paths of unmarked values that look like personal data. Each path of an event type is named once,
 * values never.
 */
export function createDetector(logger: Pick<Logger, 'warn'>): Detect {
  const reported = new Set<string>();
  return (eventType, value, keys) => {
    const kind = kindOf(String(value), typeof value);
    const keyKind = kindOfKey(keys[keys.length - 1]);
    if (kind !== undefined)
      report(eventType, pathOf(keys, String(value)), `looks like ${kind} but is not marked`);
    if (keyKind !== undefined)
      report(eventType, pathOf(keys), `has keys that look like ${keyKind}; keys are never protected`);
  };

  function report(eventType: string, path: string, says: string): void {
    const id = `${eventType} ${path} ${says}`;
    if (reported.has(id) || reported.size >= mostPaths) return;
    reported.add(id);
    logger.warn(`personal data? ${path} of ${eventType} ${says}`);
    if (reported.size === mostPaths)
      logger.warn(`personal data? ${mostPaths} paths reported; svc stops here`);
  }
}

/**
 * Hides a key that is part of the value: `alice` of `alice@example.com` is a person's name. The same for a key that is personal
 * data in Base64 or hexadecimal.
 */
function pathOf(keys: readonly Step[], value = ''): string {
  const folded = value.toLowerCase();
  const isInValue = (text: string) => text.length >= shortestName && folded.includes(text.toLowerCase());
  const isName = (key: string) =>
    isInValue(key) || decoded(key).some((text) => isInValue(text) || kindOf(text, 'string') !== undefined);
  let path = '';
  for (const key of keys) {
    if (key === element) path += '[*]';
    else path += `${path === '' ? '' : '.'}${nameLike.test(key) && !isName(key) ? key : '*'}`;
  }
  return path === '' ? 'value' : path;
}

const shortestName = 3;

function kindOfKey(key: Step | undefined): string | undefined {
  if (typeof key !== 'string') return undefined;
  for (const text of nameLike.test(key) ? decoded(key) : [key, ...decoded(key)]) {
    const kind = kindOf(text, 'string');
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** Longer keys are not decoded. */
const longestKey = 256;

function decoded(key: string): readonly string[] {
  return key.length > longestKey ? [] : readingsOf(key, () => {});
}

const email = /[^\s@<>,;:"'()]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/u;
const international = /^\+\d[\d\s().-]{6,22}$/;
const national = /^(?:0\d{1,4}[\s./-]|\(\d{2,5}\)\s?|\d{3}[.-])\d{3,4}[\s.-]?\d{3,5}$/;
const digitsOnly = /^[2-6]\d{3}(?:[ -]?\d){9,15}$/;
const iban = /^[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}$/;

function kindOf(value: string, type: string): string | undefined {
  const text = value.length > longestText ? value.slice(0, longestText) : value;
  if (digitsOnly.test(text) && isLuhn(text)) return 'a card number';
  if (type !== 'string' || text.length < 5) return undefined;
  if (text.includes('@') && email.test(text)) return 'an e-mail address';
  if (iban.test(text) && isIban(text)) return 'an IBAN';
  if (text.length <= 24 && (international.test(text) || national.test(text))) return 'a phone number';
  return undefined;
}

function isLuhn(text: string): boolean {
  const digits = text.replace(/\D/g, '');
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const doubled = index % 2 === 0 ? digit : digit * 2;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

function isIban(text: string): boolean {
  const bare = text.replaceAll(' ', '');
  let rest = 0;
  for (const character of bare.slice(4) + bare.slice(0, 4)) {
    for (const digit of String(Number.parseInt(character, 36))) rest = (rest * 10 + Number(digit)) % 97;
  }
  return rest === 1;
}

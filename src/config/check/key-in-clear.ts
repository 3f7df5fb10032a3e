import { type PathRule, type PathStep, parseRulePath } from '../../ground/pii-rule.ts';
import type { KeyFields } from '../schema/target.ts';

const chain =
  /^#?[A-Za-z_$][\w$]*(?:\?\.|\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|"[^"]*")\]|\?\.[A-Za-z_$][\w$]*)*$/;

/** Which of the key, the aggregate id and the headers of a target would show a marked field in clear, and why. */
export function shownInClear(
  { key, outbox, headers, payload, payloadIndex }: KeyFields,
  rules: readonly PathRule[],
): { readonly field: string; readonly message: string }[] {
  const inClear = [
    ['key', key],
    ['outbox.aggregateId', outbox?.aggregateId],
    ...Object.entries(headers ?? {}).map(([name, value]) => [`headers.${name}`, value]),
  ];
  return (inClear as [string, unknown][]).flatMap(([field, value]) => {
    const message = keyInClear({ key: value, payload, payloadIndex }, rules);
    return message === undefined ? [] : [{ field, message }];
  });
}

/**
 * Why the record key of a target would show a marked field in clear, where its expressions are simple enough to tell: both are
 * a chain of properties. What this cannot know is compared at each event.
 */
function keyInClear(
  { key, payload, payloadIndex }: KeyFields,
  rules: readonly PathRule[],
): string | undefined {
  if (typeof key !== 'string' || !chain.test(key.trim())) return undefined;
  const keyParts = partsOf(key);
  const base =
    payload ?? (payloadIndex === undefined || payloadIndex < 0 ? 'result' : `args[${payloadIndex}]`);
  const relative =
    typeof base === 'string' && chain.test(base.trim()) ? behind(partsOf(base), keyParts) : undefined;
  const name = keyParts.at(-1) ?? '';
  for (const { path, strategy } of rules) {
    const steps = path === '' ? [] : parseRulePath(path);
    if (typeof steps === 'string') continue;
    const isDeep =
      steps[0] === '**' && steps.length === 2 && typeof steps[1] === 'object' && steps[1].key === name;
    if (isDeep || (relative !== undefined && covers(steps, relative)))
      return `shows in clear what ${path === '' ? 'the rule for the payload' : `the rule for ${path}`} protects (${strategy})`;
  }
  return undefined;
}

function partsOf(text: string): string[] {
  const parts = text
    .trim()
    .replace(/^#/, '')
    .split(/\?\.|[.[\]]+/)
    .filter((part) => part !== '');
  const bare = parts.map((part) => part.replace(/^['"]|['"]$/g, ''));
  const [first = ''] = bare;
  const argument = /^[pa](\d+)$/.exec(first)?.[1];
  return argument === undefined ? bare : ['args', argument, ...bare.slice(1)];
}

function behind(base: readonly string[], parts: readonly string[]): readonly string[] | undefined {
  return base.every((part, index) => part === parts[index]) ? parts.slice(base.length) : undefined;
}

/** Whether a rule means the value at these keys, or something that it stands in. */
function covers(steps: readonly PathStep[], keys: readonly string[]): boolean {
  const [step, ...rest] = steps;
  if (step === undefined) return true;
  if (step === '**') return covers(rest, keys) || (keys.length > 0 && covers(steps, keys.slice(1)));
  const [key, ...more] = keys;
  if (key === undefined) return false;
  if (step === '*' || step.key === key) return covers(rest, more);
  return /^\d+$/.test(key) && covers(steps, more);
}

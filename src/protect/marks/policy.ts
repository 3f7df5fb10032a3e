import type { PathRule } from '../../ground/pii-rule.ts';
import { compilePaths, type PathState } from './path-states.ts';

/** The rules for the payloads of one event type, compiled. Marks of classes are no part of it: they go with the object. */
export interface Policy {
  /** Of a payload that is an object. */
  readonly root: PathState;
  /** Of any other payload, which is published as `{ "value": … }`: rules for `value` mean it too. */
  readonly valueRoot: PathState;
}

/**
 * Compiles rules, the most important one first: the first that matches a value counts. `onMet` is told of a rule when a payload
 * first has something at its path.
 */
export function compilePolicy(rules: readonly PathRule[], onMet?: (rule: PathRule) => void): Policy {
  const ofValue = rules.map((rule) => ({
    ...rule,
    path: rule.path.replace(/^(\$\.)?value(\.|(?=\[)|$)/, ''),
  }));
  const others = ofValue
    .map((_, index) => index)
    .filter((index) => ofValue[index]?.path !== rules[index]?.path);
  const met = (index: number): void => {
    const rule = rules[index < rules.length ? index : (others[index - rules.length] as number)];
    if (rule !== undefined) onMet?.(rule);
  };
  return {
    root: compilePaths(rules, met),
    valueRoot: compilePaths([...rules, ...others.map((index) => ofValue[index] as PathRule)], met),
  };
}

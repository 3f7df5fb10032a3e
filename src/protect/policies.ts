import type { PathRule } from '../field-rule.ts';
import { compilePolicy, type Policy } from './policy.ts';

export interface Policies {
  policyOf(eventType: string): Policy;
  /** Rules for one event type, whichever target or call publishes it. They go before those for all. */
  add(eventType: string, rules: readonly PathRule[]): void;
}

/** The policy of each event type, compiled when its rules are known. */
export function createPolicies(general: readonly PathRule[]): Policies {
  const base = compilePolicy(general);
  const rulesOf = new Map<string, readonly PathRule[]>();
  const policies = new Map<string, Policy>();
  return {
    policyOf: (eventType) => (policies.size === 0 ? base : (policies.get(eventType) ?? base)),
    add(eventType, rules) {
      if (rules.length === 0) return;
      const own = [...(rulesOf.get(eventType) ?? []), ...rules];
      rulesOf.set(eventType, own);
      policies.set(eventType, compilePolicy([...own, ...general]));
    },
  };
}

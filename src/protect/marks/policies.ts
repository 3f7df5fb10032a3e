// marks/: which rule holds for a value: marks of classes, paths of the configuration.

import type { PathRule } from '../../ground/pii-rule.ts';
import { compilePolicy, type Policy } from './policy.ts';

export interface Policies {
  /** Called once per event. */
  policyOf(eventType: string): Policy;
  /** Rules for one event type, whichever target or call publishes it. They go before those for all. */
  add(eventType: string, rules: readonly PathRule[], owner: string): void;
  /** Rules whose path no payload has had anything at, though there were events that they are for. */
  unmet(): readonly UnmetRule[];
}

/** A rule that may be mistyped: nothing says so but this, as a path may be absent from any single payload. */
export interface UnmetRule {
  readonly path: string;
  /** The target that has it, or `svc.pii.fields`. */
  readonly owner: string;
  /** Events that it was for. */
  readonly events: number;
}

export interface PoliciesOptions {
  /** `svc.pii.fields`, for all events. */
  readonly general: readonly PathRule[];
  /** Told once of each rule that has met nothing in so many events that it should have. */
  readonly onUnmet?: (rule: UnmetRule) => void;
}

/** Enough events to say that a path is not just absent by chance: of its event type, and of any. */
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

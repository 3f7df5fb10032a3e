import { checkRuleFields } from '../capture/declare/check-rule-fields.ts';
import type { Declaration } from '../capture/declare/declarations.ts';
import { defaultEventType, makeRule } from '../capture/declare/make-rule.ts';
import type { CaptureRule } from '../capture/rule.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';

// What targets of the configuration and of the code publish.

/** Throws `SvcError` when the target's expressions do not fit the function. */
export function ruleOfTarget(
  target: TargetConfig,
  parameterNames: readonly string[] | undefined,
): CaptureRule {
  const eventType = defaultEventType(target.function, target.module);
  return makeRule(target.id, 'configuration', target, eventType, target.params ?? parameterNames);
}

/** Throws `SvcError` when its fields are wrong or do not fit the function. */
export function ruleOfDeclaration({ name, origin, options, parameterNames }: Declaration): CaptureRule {
  checkRuleFields(options);
  return makeRule(name, origin, options, name, parameterNames);
}

/** So that their counters begin at 0. */
export function eventTypesOf({ targets }: Config): string[] {
  return targets.map(eventTypeOf);
}

export function eventTypeOf({ eventType, function: name, module }: TargetConfig): string {
  return eventType ?? defaultEventType(name, module);
}

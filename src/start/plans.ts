import { checkDeclaration } from '../capture/declare/check-declaration.ts';
import type { Declaration } from '../capture/declare/declarations.ts';
import { withOutbox } from '../capture/declare/declared-outbox.ts';
import { refuseInClear } from '../capture/declare/declared-rules.ts';
import { defaultEventType, makePlan } from '../capture/declare/make-plan.ts';
import type { CapturePlan } from '../capture/plan.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';

// What targets of the configuration and of the code publish.

/** Throws `SvcError` when the target's expressions do not fit the function. */
export function planOfTarget(
  target: TargetConfig,
  parameterNames: readonly string[] | undefined,
  config: Pick<Config, 'pii'>,
): CapturePlan {
  const eventType = defaultEventType(target.function, target.module);
  const params = target.params ?? parameterNames;
  // The configuration did not know the names of the parameters.
  const { key, outbox, headers, payload, payloadIndex, pii } = target;
  refuseInClear({ key, outbox, headers, payload, payloadIndex, params }, pii ?? [], config);
  return makePlan(target.id, 'configuration', target, eventType, params);
}

/** Throws `SvcError` when its fields are wrong or do not fit the function. */
export function planOfDeclaration(
  { name, origin, options, parameterNames }: Declaration,
  config: Pick<Config, 'outbox'>,
): CapturePlan {
  checkDeclaration(options);
  return makePlan(name, origin, withOutbox(options, config), name, parameterNames);
}

/** So that their counters begin at 0. */
export function eventTypesOf({ targets }: Config): string[] {
  return targets.map(eventTypeOf);
}

/** Those of them that go to the outbox. */
export function storedTypesOf({ targets }: Config): string[] {
  return targets.filter(({ outbox }) => outbox !== undefined).map(eventTypeOf);
}

export function eventTypeOf({ eventType, function: name, module }: TargetConfig): string {
  return eventType ?? defaultEventType(name, module);
}

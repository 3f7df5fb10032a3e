import type { CapturePlan } from '../../src/capture/call.ts';
import { planOfTarget } from '../../src/capture/declare/make-plan.ts';
import type { Selector } from '../../src/capture/expression/compile.ts';
import type { Config } from '../../src/config/config.ts';
import type { TargetConfig, TargetFields } from '../../src/config/schema/target.ts';

export type PlanFields = TargetFields<string | Selector, unknown>;

/** The plan of a target with these fields. */
export function planOf(fields: PlanFields, parameterNames: readonly string[] = []): CapturePlan {
  const target = { id: 'orders#create', module: './orders.ts', function: 'create', ...fields };
  const pii = { enabled: false } as Config['pii'];
  return planOfTarget(target as TargetConfig, parameterNames, { pii });
}

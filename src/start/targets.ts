import { defaultEventType, makePlan } from '../capture/declare/make-plan.ts';
import type { CaptureTarget } from '../capture/prepare.ts';
import type { TargetReport } from '../capture/report.ts';
import type { CaptureSlot } from '../capture/slot.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';

// What configured targets mean for the parts that start.ts builds.

export function captureTargetOf(target: TargetConfig): CaptureTarget {
  const eventType = defaultEventType(target.function, target.module);
  return {
    id: target.id,
    module: target.module,
    functionPath: target.function,
    makePlan: (names) => makePlan(target.id, 'configuration', target, eventType, target.params ?? names),
  };
}

/** So that their counters begin at 0. */
export function eventTypesOf({ targets }: Config): string[] {
  return targets.map(eventTypeOf);
}

export function eventTypeOf({ eventType, function: name, module }: TargetConfig): string {
  return eventType ?? defaultEventType(name, module);
}

export function reportOf({ plan, calls, failed, skipped }: CaptureSlot): TargetReport {
  return {
    id: plan.id,
    state: 'patched',
    notes: [plan.origin, ...(plan.notes ?? [])],
    calls,
    failed,
    skipped,
  };
}

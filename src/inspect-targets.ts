import { defaultEventType, makeRule } from './capture/make-rule.ts';
import { inspect } from './capture/prepare.ts';
import type { TargetReport } from './capture/report.ts';
import type { Config } from './config/config.ts';

/** Which targets of the configuration can be patched, without loading the application. */
export function inspectTargets({ targets, baseDir }: Config): TargetReport[] {
  const all = targets.map((target) => ({
    id: target.id,
    module: target.module,
    functionPath: target.function,
    makeRule: (names: readonly string[] | undefined) =>
      makeRule(
        target.id,
        'configuration',
        target,
        defaultEventType(target.function, target.module),
        target.params ?? names,
      ),
  }));
  return inspect(all, { baseDir });
}

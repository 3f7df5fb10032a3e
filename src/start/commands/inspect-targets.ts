import { inspect } from '../../capture/inspect.ts';
import type { TargetReport } from '../../capture/report.ts';
import type { Config } from '../../config/config.ts';
import type { TargetConfig } from '../../config/schema/target.ts';
import { planOfTarget } from '../plans.ts';

/** Which targets of the configuration can be patched, without loading the application. */
export function inspectTargets(config: Config): TargetReport[] {
  const { targets, baseDir } = config;
  const all = targets.map((target) => ({
    id: target.id,
    module: target.module,
    functionPath: target.function,
    expressions: expressionsOf(target),
    makePlan: (names: readonly string[] | undefined) => planOfTarget(target, names, config),
  }));
  return inspect(all, { baseDir });
}

function expressionsOf({ payload, payloadIndex, key, when, headers }: TargetConfig): string[] {
  const chosen = payload ?? (payloadIndex < 0 ? undefined : `#p${payloadIndex}`);
  return [chosen, key, when, ...Object.values(headers ?? {})].filter((each) => typeof each === 'string');
}

import { compiledFrom } from '../../capture/compiled-from.ts';
import { followImports } from '../../capture/follow-imports.ts';
import { inspect } from '../../capture/inspect.ts';
import { inPlaceOf, type TargetReport } from '../../capture/report.ts';
import { entryFile } from '../../capture/source/late-start.ts';
import { locate } from '../../capture/source/locate.ts';
import { shownPath } from '../../capture/source/own-file.ts';
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

/** What a start of the application loads, as far as reading shows it. */
export interface StartReport {
  /** Those in files of the application's own. */
  readonly targets: readonly StartedTarget[];
  /** Places that name a module which reading does not find. */
  readonly unknown: readonly string[];
}

interface StartedTarget {
  readonly id: string;
  /** `elsewhere`: a file that is made of the target's is loaded in its place. */
  readonly state: 'loaded' | 'elsewhere' | 'not found';
  readonly reason?: string;
}

/** Which targets are in files that a start with these entries loads: whoever runs `dist/main.js` loads nothing of `src`. */
export function inspectStart({ targets, baseDir }: Config, entries: readonly string[]): StartReport {
  const { files, unknown } = followImports(entries, baseDir);
  return {
    unknown,
    targets: targets.flatMap(({ id, module }): StartedTarget[] => {
      const located = locate(module, baseDir);
      if (!('paths' in located)) return [];
      const { paths } = located;
      if (paths.some((path) => files.has(path))) return [{ id, state: 'loaded' }];
      const built = paths
        .map((path) => compiledFrom(path, files, baseDir))
        .find((file) => file !== undefined);
      if (built === undefined) return [{ id, state: 'not found' }];
      return [{ id, state: 'elsewhere', reason: inPlaceOf(shownPath(built, baseDir)) }];
    }),
  };
}

/**
 * Of the application that this process runs: targets whose file is not the one that it loads. Reading its imports takes time, so
 * it is done where there may be such a target: one in TypeScript, and an application that is JavaScript.
 */
export function targetsElsewhere(config: Config): readonly StartedTarget[] {
  const entry = entryFile();
  const isTyped = (file: string): boolean => /\.[cm]?tsx?$/.test(file);
  if (entry === undefined || isTyped(entry) || !config.targets.some(({ module }) => isTyped(module)))
    return [];
  return inspectStart(config, [entry]).targets.filter(({ state }) => state === 'elsewhere');
}

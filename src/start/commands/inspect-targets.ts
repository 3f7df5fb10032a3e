import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { planOfTarget } from '../../capture/declare/make-plan.ts';
import { followImports, inspect } from '../../capture/inspect.ts';
import { inPlaceOf, type TargetReport } from '../../capture/report.ts';
import { compiledFrom } from '../../capture/source/compiled-from.ts';
import { inspectBuilt } from '../../capture/source/inspect-built.ts';
import { entryFile } from '../../capture/source/late-start.ts';
import { hashOf, readList } from '../../capture/source/listed-places.ts';
import { locate, missingFile, shownPath } from '../../capture/source/target-files.ts';
import type { Config } from '../../config/config.ts';
import type { TargetConfig } from '../../config/schema/target.ts';
import { scriptsBelow } from './bundlers.ts';

type LoadedBy = NonNullable<Parameters<typeof inspect>[1]['loadedBy']>;

/** Finds the configured targets without loading the application. `loadedBy`: how its start loads packages. */
export function inspectTargets(config: Config, loadedBy?: LoadedBy): TargetReport[] {
  const { targets, baseDir } = config;
  const all = targets.map((target) => ({
    id: target.id,
    module: target.module,
    functionPath: target.function,
    expressions: expressionsOf(target),
    makePlan: (names: readonly string[] | undefined) => planOfTarget(target, names, config),
  }));
  return inspect(all, { baseDir, ...(loadedBy && { loadedBy }) });
}

function expressionsOf({ payload, payloadIndex, key, when, headers }: TargetConfig): string[] {
  const chosen = payload ?? (payloadIndex < 0 ? undefined : `#p${payloadIndex}`);
  return [chosen, key, when, ...Object.values(headers ?? {})].filter((each) => typeof each === 'string');
}

/** The modules that a start of the application loads, as far as static imports show. */
export interface StartReport {
  /** Targets in the application's own files. */
  readonly targets: readonly StartedTarget[];
  /** Places that import a module whose name is computed. */
  readonly unknown: readonly string[];
  /** How packages are loaded: `import`, `require`, or both. */
  readonly packages: ReadonlyMap<string, ReadonlySet<string>>;
}

interface StartedTarget {
  readonly id: string;
  /**
   * `unloaded`: another file, compiled from the target's, is loaded. `pending`: no import leads there, but the running application may load
   * it.
   */
  readonly state: 'loaded' | 'unloaded' | 'pending';
  readonly reason?: string;
}

/** Which targets are in files that these entries load: `node dist/main.js` loads nothing of `src`. */
export function inspectStart({ targets, baseDir }: Config, entries: readonly string[]): StartReport {
  const { files, unknown, packages } = followImports(entries, baseDir);
  const unseen = targets.filter((target) => !pathsOf(target, baseDir).some((path) => files.has(path)));
  const built = inspectBuilt(files, unseen, baseDir);
  return {
    unknown,
    packages,
    targets: targets.flatMap((target): StartedTarget[] => {
      const { id } = target;
      const paths = pathsOf(target, baseDir);
      if (paths.length === 0) return [];
      if (!unseen.includes(target)) return [{ id, state: 'loaded' }];
      const inBuilt = built.get(id);
      if (inBuilt !== undefined) return [startedOf(id, inBuilt)];
      const instead = paths
        .map((path) => compiledFrom(path, files, baseDir))
        .find((file) => file !== undefined);
      if (instead === undefined) return [{ id, state: 'pending' }];
      return [{ id, state: 'unloaded', reason: inPlaceOf(shownPath(instead, baseDir)) }];
    }),
  };
}

const startedOf = (id: string, { isFound, remark }: { isFound: boolean; remark: string }): StartedTarget => ({
  id,
  state: isFound ? 'loaded' : 'unloaded',
  reason: remark,
});

/** The candidate files of a target, existing or not; empty for a package. */
function pathsOf({ module }: TargetConfig, baseDir: string): readonly string[] {
  const located = locate(module, baseDir);
  if ('paths' in located) return located.paths;
  const missing = missingFile(module, baseDir);
  return missing === undefined ? [] : [missing];
}

/** Which targets are in built files, according to their source maps. */
export function inspectBundle({ targets, baseDir }: Config, files: readonly string[]): StartedTarget[] {
  const own = targets.filter((target) => pathsOf(target, baseDir).length > 0);
  const built = inspectBuilt(files, own, baseDir);
  return own.map(({ id }) => startedOf(id, built.get(id) ?? { isFound: false, remark: 'in no source map' }));
}

/** Targets of a build that imports do not reach: those listed by `svc manifest`, and those of Next.js. */
function targetsBuilt(config: Config): ReadonlySet<string> {
  const { baseDir } = config;
  const files = [...readList(baseDir, () => {}).files].filter(
    ([file, { hash }]) => hashOf(readFileSync(file, 'utf8')) === hash,
  );
  const listed = files.flatMap(([, { targets }]) => targets.map(({ id }) => id));
  if (!existsSync(join(baseDir, '.next/BUILD_ID'))) return new Set(listed);
  const rest = { ...config, targets: config.targets.filter(({ id }) => !listed.includes(id)) };
  const chunks = rest.targets.length === 0 ? [] : scriptsBelow(join(baseDir, '.next/server'));
  const found = inspectBundle(rest, chunks).filter(({ state }) => state === 'loaded');
  return new Set([...listed, ...found.map(({ id }) => id)]);
}

/**
 * For the running application: targets that cannot be captured, and targets whose file is not the loaded one. Following imports takes
 * time, so it happens only for a TypeScript target in a JavaScript application.
 */
export function targetsUnloaded(
  config: Config,
): readonly { readonly id: string; readonly reason?: string | undefined }[] {
  const entry = entryFile();
  const isTyped = (file: string): boolean => /\.[cm]?tsx?$/.test(file);
  let followed: StartReport['packages'] | undefined;
  const loadedBy: LoadedBy = (specifier) => {
    followed ??= entry === undefined ? new Map() : followImports([entry], config.baseDir).packages;
    return followed.get(specifier);
  };
  const unpatched = inspectTargets(config, loadedBy).filter(({ state }) => state === 'failed');
  const isBuilt = unpatched.length === 0 ? new Set() : targetsBuilt(config);
  const failed = unpatched.filter(({ id }) => !isBuilt.has(id));
  if (entry === undefined || isTyped(entry) || !config.targets.some(({ module }) => isTyped(module)))
    return failed;
  const { targets } = inspectStart(config, [entry]);
  // If the sources are not shipped, the built file counts.
  const isLoaded = new Set(targets.filter(({ state }) => state === 'loaded').map(({ id }) => id));
  return [
    ...failed.filter(({ id }) => !isLoaded.has(id)),
    ...targets.filter(({ state }) => state === 'unloaded'),
  ];
}

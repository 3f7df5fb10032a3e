// packages/: functions of packages: their exports are replaced when a package is loaded.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { addNote } from '../notes.ts';
import { type FunctionPath, parseFunctionPath } from '../source/find/function-path.ts';
import { hookRequires } from './hook-requires.ts';
import type { HookedPackage, PackageHookOptions } from './hooked-package.ts';
import { includeImports, installLoader, keysOf } from './import-loader.ts';
import type { PackageTarget, PatchEvents } from './package-target.ts';
import { type ExportTarget, type PatchOutcome, patchNamespace } from './patch-exports.ts';
import { namesOf, resolvePackage } from './resolve-package.ts';

/**
 * Captures exports of packages as they are loaded. `others` go through the same hooks: the loader of imports is installed once.
 * Without any nothing is hooked and nothing loaded.
 *
 * Returns what takes the hooks away again; functions that are captured stay so. Never throws.
 */
export function hookPackages(
  targets: readonly PackageTarget[],
  events: PatchEvents,
  options: PackageHookOptions,
  others: readonly HookedPackage[] = [],
): () => void {
  const packages = [...groupBySpecifier(targets, events), ...others];
  if (packages.length === 0) return () => {};
  const undo: (() => void)[] = [];
  try {
    undo.push(hookRequires(packages));
    undo.push(
      hookImports(packages, options, (reason) => {
        for (const each of packages) {
          if (each.file === undefined) each.failAll(reason);
          // What `require` can load is captured where it is loaded that way.
          else for (const id of each.ids) addNote({ winner: id, loser: null, reason });
        }
      }),
    );
  } catch (error) {
    const reason = `the hooks could not be installed: ${error instanceof Error ? error.message : 'unknown error'}`;
    for (const target of targets) events.failed(target.id, reason);
  }
  return () => {
    for (const each of undo) each();
  };
}

/** Why a target can never be captured; `undefined` when nothing speaks against it. Resolves the package, never loads it. */
export function inspectPackageTarget(target: PackageTarget): string | undefined {
  const path = parseFunctionPath(target.functionPath);
  if ('problem' in path) return path.problem;
  const resolved = resolvePackage(target.specifier, target.baseDir);
  return 'problem' in resolved ? resolved.problem : undefined;
}

function groupBySpecifier(targets: readonly PackageTarget[], events: PatchEvents): HookedPackage[] {
  const groups = new Map<string, ReportedTarget[]>();
  for (const target of targets) {
    const path = parseFunctionPath(target.functionPath);
    if ('problem' in path) {
      events.failed(target.id, path.problem);
      continue;
    }
    const key = `${target.baseDir}\n${target.specifier}`;
    groups.set(key, [...(groups.get(key) ?? []), reported(target, path, events)]);
  }
  const packages: HookedPackage[] = [];
  for (const group of groups.values()) {
    const first = group[0]?.target;
    if (first !== undefined) packages.push(hooked(first.specifier, first.baseDir, group));
  }
  return packages;
}

interface ReportedTarget {
  readonly target: PackageTarget;
  readonly exported: ExportTarget;
  readonly tell: (outcome: PatchOutcome) => void;
  readonly fail: (reason: string) => void;
}

function reported(target: PackageTarget, path: FunctionPath, events: PatchEvents): ReportedTarget {
  let isPatched = false;
  const patched = () => {
    if (!isPatched) events.patched(target.id);
    isPatched = true;
  };
  // A package can be loaded twice, as ESM and as CJS, or in two versions: one that has the function is enough.
  const fail = (reason: string) => {
    if (!isPatched) events.failed(target.id, reason);
  };
  const onMethod: ExportTarget['onMethod'] = (method, result) => {
    if (result === 'wrapped' || result === 'already') patched();
    else fail(`${method || 'the result'} of what ${path.names.join('.')}() returns: ${result}`);
  };
  const tell = (outcome: PatchOutcome) => {
    if ('problem' in outcome) fail(outcome.problem);
    // Of a factory it shows with the first object.
    else if (path.result === undefined) patched();
  };
  return { target, exported: { path, slotFor: target.slotFor, onMethod }, tell, fail };
}

function hooked(specifier: string, baseDir: string, group: readonly ReportedTarget[]): HookedPackage {
  const resolved = resolvePackage(specifier, baseDir);
  // Another part of a workspace may have the package all the same: the hooks are set nevertheless.
  if ('problem' in resolved) for (const { fail } of group) fail(resolved.problem);
  const file = 'problem' in resolved ? undefined : resolved.file;
  const names = namesOf(specifier);
  const patchAll: HookedPackage['patchAll'] = (exports, patch) => {
    let current = exports;
    for (const { exported, tell, fail } of group) {
      try {
        const outcome = patch(current, exported);
        current = outcome.exports;
        tell(outcome);
      } catch (error) {
        fail(error instanceof Error ? error.message : 'the function could not be wrapped');
      }
    }
    return current;
  };
  const failAll = (reason: string) => {
    for (const { fail } of group) fail(reason);
  };
  return { names, file, ids: group.map(({ target }) => target.id), patchAll, failAll };
}

const load = createRequire(import.meta.url);

type Namespace = Record<string, unknown>;

/** Patches packages as `import` loads them, CommonJS ones included. `onUnreachable` tells why that is not possible here. */
function hookImports(
  packages: readonly HookedPackage[],
  options: PackageHookOptions,
  onUnreachable: (reason: string) => void,
): () => void {
  const { addHook, removeHook } = load('import-in-the-middle') as typeof import('import-in-the-middle');
  const wanted = new Map<string, HookedPackage[]>();
  for (const each of packages) {
    const urls = each.file === undefined ? [] : [pathToFileURL(each.file).href];
    for (const key of [...each.names, ...urls]) wanted.set(key, [...(wanted.get(key) ?? []), each]);
  }
  const hook = (url: string, namespace: Namespace, specifier?: string, format?: string): void => {
    const matching = new Set(keysOf(url, specifier ?? '').flatMap((key) => wanted.get(key) ?? []));
    for (const { patchAll } of matching) {
      const patch = (_: unknown, target: ExportTarget) => patchNamespace(namespace, format, target);
      patchAll(namespace, patch);
    }
  };
  addHook(hook);
  includeImports(wanted.keys());
  const reason = installLoader(options);
  if (reason !== undefined) onUnreachable(reason);
  return () => removeHook(hook);
}

// packages/: functions of packages: what is left to their exports, where no text shows the function.

import Module, { createRequire, isBuiltin, syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { addNote } from '../report.ts';
import { runtimePatches } from '../source/capture-runtime.ts';
import { type FunctionPath, parseFunctionPath } from '../source/function-path.ts';
import type { PackageWork } from '../source/hook-source.ts';
import { hasSoundSyncHooks } from '../source/node-hooks.ts';
import { buildsOf, type SoughtPackage } from '../source/package-files.ts';
import { type ExportTarget, type PatchOutcome, patchExports } from './patch-exports.ts';
import { namesOf, type PackageTarget, type PatchEvents, resolvePackage } from './resolve-package.ts';

export interface PackageHookOptions {
  /**
   * How svc was preloaded. Where Node has no sound synchronous hooks, `--require` leaves `import` alone: a loader that is
   * registered there breaks every `require` of an ES module.
   */
  readonly preloadedBy: 'import' | 'require';
}

/** A package that is changed in place when it is loaded, for another reason than a target. */
export interface PackagePatch {
  readonly specifier: string;
  /**
   * Gets what `require` or `import` of it gives; called for each of them, and for each copy. Never throws. An object that it
   * returns is what `require` gives in its place, where exports cannot be changed.
   */
  readonly patch: (exports: object) => unknown;
}

export interface PackageHooks extends PackageWork {
  /**
   * Hooks `require`, and changes what is loaded already. After the texts are hooked: what it loads for itself, an application may
   * have as well.
   */
  install(): void;
  /** Takes the hooks away again; functions that are captured stay so. */
  close(): void;
}

/**
 * Says which packages are sought, and captures in their exports what their texts do not show. Without any nothing is hooked
 * and nothing loaded. Nothing of it throws.
 */
export function hookPackages(
  targets: readonly PackageTarget[],
  events: PatchEvents,
  options: PackageHookOptions,
  patches: readonly (PackagePatch & { readonly baseDir: string })[] = [],
): PackageHooks {
  const groups = groupBySpecifier(targets, events);
  const byId = new Map(
    groups.flatMap(({ targets: each }) => each.map((one) => [one.target.id, one] as const)),
  );
  const byKey = new Map<string, (typeof patches)[number]>();
  for (const [index, each] of patches.entries()) byKey.set(`${index}:${each.specifier}`, each);
  const sought = [
    ...groups.map(
      ({ specifier, baseDir, targets: each }): SoughtPackage => ({
        specifier,
        from: baseDir,
        targets: each.map(({ target: { id, functionPath } }) => ({ id, functionPath })),
        patch: undefined,
      }),
    ),
    ...[...byKey].map(
      ([key, { specifier, baseDir }]): SoughtPackage => ({
        specifier,
        from: baseDir,
        targets: [],
        patch: key,
      }),
    ),
  ];
  const undo: (() => void)[] = [];
  return {
    sought,
    install() {
      try {
        for (const [key, { patch, specifier, baseDir }] of byKey) {
          runtimePatches().set(key, (exports) => void patchAll(exports, patch));
          changeLoaded(specifier, baseDir, patch);
        }
        const unhook = hookRequires(groups, patches);
        if (unhook !== undefined) undo.push(unhook);
        for (const group of groups) {
          tellReach(group, options);
          if (isBuiltin(group.specifier)) patchBuiltin(group);
          else patchLoaded(group);
        }
      } catch (error) {
        const reason = `the hooks could not be installed: ${messageOf(error)}`;
        for (const { id } of targets) events.failed(id, reason);
      }
    },
    ran(module, file, inserted) {
      forgetPartial(module);
      for (const target of file.targets) {
        const { id, builds } = buildsOf(target.id);
        const one = byId.get(id);
        if (one !== undefined && target.exported !== undefined && !inserted.has(target.id)) {
          const names = { names: target.exported, result: one.path.result };
          module.exports = patchOne(module.exports, one, builds, names);
        }
      }
      for (const key of file.patches) {
        const patch = byKey.get(key)?.patch;
        if (patch) module.exports = patchAll(module.exports, patch);
      }
    },
    close() {
      // The last one first: each gives `require` back as it found it.
      for (const each of undo.reverse()) each();
      for (const key of byKey.keys()) runtimePatches().delete(key);
    },
  };
}

/** Why a target can never be captured; `undefined` when nothing speaks against it. Resolves the package, never loads it. */
export function inspectPackageTarget(target: PackageTarget): string | undefined {
  const path = parseFunctionPath(target.functionPath);
  if ('problem' in path) return path.problem;
  const resolved = resolvePackage(target.specifier, target.baseDir);
  return 'problem' in resolved ? resolved.problem : undefined;
}

interface Group {
  readonly specifier: string;
  readonly baseDir: string;
  readonly targets: ReportedTarget[];
  /** What `require` of it loads, absolute. */
  readonly file: string | undefined;
}

type Builds = readonly string[] | undefined;

interface ReportedTarget {
  readonly target: PackageTarget;
  readonly path: FunctionPath;
  readonly onMethod: (builds: Builds) => ExportTarget['onMethod'];
  readonly tell: (outcome: PatchOutcome, builds: Builds) => void;
  readonly fail: (reason: string, builds?: Builds) => void;
}

function groupBySpecifier(targets: readonly PackageTarget[], events: PatchEvents): Group[] {
  const groups = new Map<string, Group>();
  for (const target of targets) {
    const path = parseFunctionPath(target.functionPath);
    if ('problem' in path) {
      events.failed(target.id, path.problem);
      continue;
    }
    const { specifier, baseDir } = target;
    const one = reported(target, path, events);
    const key = `${baseDir}\n${specifier}`;
    const group = groups.get(key);
    if (group !== undefined) {
      group.targets.push(one);
      continue;
    }
    const resolved = resolvePackage(specifier, baseDir);
    const file = 'problem' in resolved ? undefined : resolved.file;
    groups.set(key, { specifier, baseDir, targets: [one], file });
  }
  for (const { specifier, baseDir, targets: each } of groups.values()) {
    const resolved = resolvePackage(specifier, baseDir);
    // Another part of a workspace may have the package all the same: it is sought nevertheless.
    if ('problem' in resolved) for (const { fail } of each) fail(resolved.problem);
  }
  return [...groups.values()];
}

function reported(target: PackageTarget, path: FunctionPath, events: PatchEvents): ReportedTarget {
  // What is captured once stays so: of the files of one build, one with the function is enough.
  const fail = (reason: string, builds?: Builds) => {
    if (!events.isPatched(target.id, builds)) events.failed(target.id, reason, builds);
  };
  const onMethod =
    (builds: Builds): ExportTarget['onMethod'] =>
    (method, result) => {
      if (result === 'wrapped' || result === 'already') events.patched(target.id, builds);
      else fail(`${method || 'the result'} of what ${path.names.join('.')}() returns: ${result}`, builds);
    };
  const tell = (outcome: PatchOutcome, builds: Builds) => {
    if ('problem' in outcome) fail(outcome.problem, builds);
    // Of a factory it shows with the first object.
    else if (path.result === undefined) events.patched(target.id, builds);
  };
  return { target, path, onMethod, tell, fail };
}

/** Returns what users of the module must get. */
function patchOne(
  exports: unknown,
  { target: { slotFor }, path, onMethod, tell, fail }: ReportedTarget,
  builds?: Builds,
  inside = path,
): unknown {
  try {
    const outcome = patchExports(exports, { path: inside, slotFor, onMethod: onMethod(builds) });
    tell(outcome, builds);
    return outcome.exports;
  } catch (error) {
    fail(error instanceof Error ? error.message : 'the function could not be wrapped', builds);
    return exports;
  }
}

/** Gives the exports, and what they have under `default`, to a patch. Returns what users of the module must get. */
function patchAll(exports: unknown, patch: PackagePatch['patch']): unknown {
  const replacement = isObject(exports) ? patch(exports) : undefined;
  const standard = isObject(exports) && 'default' in exports ? exports.default : undefined;
  if (isObject(standard)) patch(standard);
  return isObject(replacement) ? replacement : exports;
}

type Loaded = { exports: unknown; readonly loaded: boolean };

function loadedModules(): Readonly<Record<string, Loaded | undefined>> {
  return (Module as unknown as { _cache: Readonly<Record<string, Loaded | undefined>> })._cache;
}

/** One that was required before svc started is changed at once. */
function changeLoaded(specifier: string, baseDir: string, patch: PackagePatch['patch']): void {
  const resolved = resolvePackage(specifier, baseDir);
  const file = 'problem' in resolved ? undefined : resolved.file;
  const loaded = file === undefined ? undefined : loadedModules()[file];
  if (loaded !== undefined) loaded.exports = patchAll(loaded.exports, patch);
}

/** The same for targets: svc itself loads packages that an application may have as well. */
function patchLoaded({ file, targets }: Group): void {
  const loaded = file === undefined ? undefined : loadedModules()[file];
  if (loaded?.loaded !== true) return;
  for (const one of targets) loaded.exports = patchOne(loaded.exports, one, ofRequire);
}

/** What `import` gives of a module of Node is what its exports held when they were compared last. */
function patchBuiltin({ specifier, baseDir, targets }: Group): void {
  const exports: unknown = createRequire(path.join(baseDir, 'noop.js'))(specifier);
  for (const one of targets) patchOne(exports, one);
  syncBuiltinESMExports();
}

/** Said at once, where a preload does not reach what is imported. */
function tellReach({ specifier, file, targets }: Group, options: PackageHookOptions): void {
  if (options.preloadedBy !== 'require' || hasSoundSyncHooks() || isBuiltin(specifier)) return;
  const reason = `import does not reach it with --require on Node ${process.versions.node}; use --import svc/register`;
  for (const { target, fail } of targets) {
    if (file === undefined) fail(reason);
    // What `require` can load is captured where it is loaded that way.
    else addNote({ winner: target.id, loser: null, reason });
  }
}

const load = createRequire(import.meta.url);

const ofRequire: Builds = ['require'];

/**
 * Sees what `require` gives of modules of Node, and of packages whose files do not come by `_compile`. One hook for all, and none where
 * nothing needs it: it resolves every `require` of the application once more, and of a package that it knows by name each file twice.
 */
function hookRequires(groups: readonly Group[], patches: readonly PackagePatch[]): (() => void) | undefined {
  const builtins = [...groups, ...patches]
    .map(({ specifier }) => specifier)
    .filter((each) => isBuiltin(each));
  const files = groups.flatMap(({ file }) => (file === undefined || /\.[cm]?js$/.test(file) ? [] : [file]));
  if (builtins.length + files.length === 0) return undefined;
  const { Hook } = load('require-in-the-middle') as typeof import('require-in-the-middle');
  const hook = new Hook([...new Set([...builtins.flatMap(namesOf), ...files])], (exports, name, folder) => {
    let current: unknown = exports;
    for (const group of groups) {
      if (!isMeant(group, name, folder)) continue;
      const { file } = group;
      // In a circle of modules it is not complete yet: it comes again when it has run.
      if (file !== undefined && loadedModules()[file]?.loaded === false) return exports;
      for (const one of group.targets)
        current = patchOne(current, one, file === undefined ? file : ofRequire);
    }
    for (const { specifier, patch } of patches)
      if (isBuiltin(specifier) && namesOf(specifier).includes(name)) current = patchAll(current, patch);
    return current as typeof exports;
  });
  return () => hook.unhook();
}

/** What is known by its path is told as a folder, and a name without the ending. */
function isMeant({ specifier, file }: Group, name: string, folder: string | undefined): boolean {
  if (file === undefined) return isBuiltin(specifier) && namesOf(specifier).includes(name);
  const { dir, name: base } = path.parse(file);
  return dir === folder && base === name;
}

/**
 * A hook of `require` keeps the exports that it has seen, with the module: those of a module that still ran, in a circle, are not
 * what it exports in the end.
 */
function forgetPartial(module: object): void {
  for (const key of Object.getOwnPropertySymbols(module)) {
    if (key.description === 'RitmExports') Reflect.deleteProperty(module, key);
  }
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}

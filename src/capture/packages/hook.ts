// packages/: functions of packages whose text does not show them: captured through the exports.

import { readdirSync } from 'node:fs';
import Module, { builtinModules, createRequire, isBuiltin, syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { types } from 'node:util';
import { installedManifest, readManifest } from '../../ground/files.ts';
import { didYouMean } from '../../ground/names.ts';
import { type Callable, heldOf } from '../captured-functions.ts';
import { parameterNames } from '../declare/parameter-names.ts';
import { addNote } from '../report.ts';
import type { CaptureSlot } from '../slot.ts';
import { runtimePatches } from '../source/capture-runtime.ts';
import { type FunctionPath, parseFunctionPath } from '../source/function-path.ts';
import type { PackageWork } from '../source/hook-source.ts';
import { hasSoundSyncHooks } from '../source/node-hooks.ts';
import { packageName } from '../source/resolve-specifier.ts';
import { buildsOf, type PendingPackage } from '../source/target-files.ts';
import { messageOf } from '../source/wrapper-place.ts';
import { canHaveProperties, findPlace, hasPrivateStatics, putInPlace } from '../wrap/imitate.ts';
import { wrapFunction } from '../wrap/wrap.ts';
import { type WrapResult, wrapFactory } from '../wrap/wrap-property.ts';

interface PackageHookOptions {
  /**
   * How svc was preloaded. On Node without sound synchronous hooks, `--require` leaves `import` alone: a loader
   * registered there breaks every `require` of an ES module.
   */
  readonly preloadedBy: 'import' | 'require';
}

/** A package that svc changes in place on load, for another reason than a target. */
export interface PackagePatch {
  readonly specifier: string;
  /**
   * Gets the exports of each `require` or `import`, and of each copy. Never throws. An object that it returns replaces
   * the result of `require`, for exports that cannot be changed.
   */
  readonly patch: (exports: object) => unknown;
}

interface PackageHooks extends PackageWork {
  /** Hooks `require`, and changes loaded modules. Call it after the texts are hooked: it loads modules itself. */
  install(): void;
  /** Removes the hooks; captured functions stay captured. */
  close(): void;
}

/**
 * Reports the packages with pending targets, and captures in their exports what their texts do not show. Without
 * targets it hooks and loads nothing. Never throws.
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
  const pending = [
    ...groups.map(
      ({ specifier, baseDir, targets: each }): PendingPackage => ({
        specifier,
        from: baseDir,
        targets: each.map(({ target: { id, functionPath } }) => ({ id, functionPath })),
        patch: undefined,
      }),
    ),
    ...[...byKey].map(
      ([key, { specifier, baseDir }]): PendingPackage => ({
        specifier,
        from: baseDir,
        targets: [],
        patch: key,
      }),
    ),
  ];
  const undo: (() => void)[] = [];
  return {
    pending,
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
      // In reverse order: each restores `require` as it found it.
      for (const each of undo.reverse()) each();
      for (const key of byKey.keys()) runtimePatches().delete(key);
    },
  };
}

/** Why a target can never be captured; `undefined` if no reason is known. Resolves the package, never loads it. */
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
    // Still look for it: another part of a workspace may have the package.
    if ('problem' in resolved) for (const { fail } of each) fail(resolved.problem);
  }
  return [...groups.values()];
}

function reported(target: PackageTarget, path: FunctionPath, events: PatchEvents): ReportedTarget {
  // A captured target stays captured: of the files of one build, one with the function is enough.
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
    // A factory is patched with its first object.
    else if (path.result === undefined) events.patched(target.id, builds);
  };
  return { target, path, onMethod, tell, fail };
}

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

/** Passes the exports, and their `default`, to a patch. Returns what users of the module must get. */
function patchAll(exports: unknown, patch: PackagePatch['patch']): unknown {
  const replacement = canHaveProperties(exports) ? patch(exports) : undefined;
  const standard = canHaveProperties(exports) && 'default' in exports ? exports.default : undefined;
  if (canHaveProperties(standard)) patch(standard);
  return canHaveProperties(replacement) ? replacement : exports;
}

type Loaded = { exports: unknown; readonly loaded: boolean };

function loadedModules(): Readonly<Record<string, Loaded | undefined>> {
  return (Module as unknown as { _cache: Readonly<Record<string, Loaded | undefined>> })._cache;
}

function changeLoaded(specifier: string, baseDir: string, patch: PackagePatch['patch']): void {
  const resolved = resolvePackage(specifier, baseDir);
  const file = 'problem' in resolved ? undefined : resolved.file;
  const loaded = file === undefined ? undefined : loadedModules()[file];
  if (loaded !== undefined) loaded.exports = patchAll(loaded.exports, patch);
}

/** The same for targets: svc itself loads packages that the application may use. */
function patchLoaded({ file, targets }: Group): void {
  const loaded = file === undefined ? undefined : loadedModules()[file];
  if (loaded?.loaded !== true) return;
  for (const one of targets) loaded.exports = patchOne(loaded.exports, one, ofRequire);
}

/** `import` of a Node module gives what its exports held at the last sync. */
function patchBuiltin({ specifier, baseDir, targets }: Group): void {
  const exports: unknown = createRequire(path.join(baseDir, 'noop.js'))(specifier);
  for (const one of targets) patchOne(exports, one);
  syncBuiltinESMExports();
}

/** Reports targets that the preload cannot reach through `import`. */
function tellReach({ specifier, file, targets }: Group, options: PackageHookOptions): void {
  if (options.preloadedBy !== 'require' || hasSoundSyncHooks() || isBuiltin(specifier)) return;
  const reason = `--require does not capture imports on Node ${process.versions.node}; use --import svc/register`;
  for (const { target, fail } of targets) {
    if (file === undefined) fail(reason);
    // Modules that `require` can load are captured when loaded that way.
    else addNote({ winner: target.id, loser: null, reason });
  }
}

const load = createRequire(import.meta.url);

const ofRequire: Builds = ['require'];

/**
 * Sees the exports of Node modules, and of packages whose files skip `_compile`. One hook for all, and only if needed:
 * it resolves every `require` of the application again, and each file twice for packages known by name.
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
      // Incomplete in a cycle of modules: it comes again after it has run.
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

/** A module known by its path is reported as a folder, and a name without the extension. */
function isMeant({ specifier, file }: Group, name: string, folder: string | undefined): boolean {
  if (file === undefined) return isBuiltin(specifier) && namesOf(specifier).includes(name);
  const { dir, name: base } = path.parse(file);
  return dir === folder && base === name;
}

/** A `require` hook caches the exports that it saw on the module. In a cycle these are incomplete: drop them. */
function forgetPartial(module: object): void {
  for (const key of Object.getOwnPropertySymbols(module)) {
    if (key.description === 'RitmExports') Reflect.deleteProperty(module, key);
  }
}

interface ExportTarget {
  readonly path: FunctionPath;
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
  /** Called when a factory's object is patched, or cannot be: after the module is loaded. */
  readonly onMethod: (method: string, result: WrapResult) => void;
}

type PatchOutcome =
  | { readonly result: 'wrapped' | 'already'; readonly exports: unknown }
  | { readonly problem: string; readonly exports: unknown };

/** Captures one function among the exports of a CommonJS module, in place if possible. Users must get `exports` of the result. */
function patchExports(exports: unknown, target: ExportTarget): PatchOutcome {
  const names = inside(exports, target.path.names);
  if (names.length === 0) return patchWhole(exports, target);
  const owner = walk(exports, names.slice(0, -1));
  if ('problem' in owner) return { problem: owner.problem, exports };
  return patchMember(exports, owner.value, names, target);
}

/** The names below `exports`: `default`, or the name of an exported class, can mean the exports themselves. */
function inside(exports: unknown, names: readonly string[]): readonly string[] {
  const [head = '', ...rest] = names;
  if (has(exports, head)) return names;
  const isWhole = head === 'default' || (typeof exports === 'function' && exports.name === head);
  if (isWhole) return rest;
  // `import x from 'x'` of a transpiled package: its functions are on the default export.
  const inner = read(exports, 'default');
  if (
    canHaveProperties(inner) &&
    (has(inner, head) || (typeof inner === 'function' && inner.name === head))
  ) {
    return has(inner, head) ? ['default', ...names] : ['default', ...rest];
  }
  return names;
}

function patchWhole(exports: unknown, target: ExportTarget): PatchOutcome {
  if (typeof exports !== 'function') return { problem: 'the module does not export a function', exports };
  const wrapper = wrapOne(exports as Callable, target);
  if (wrapper === exports) return verdict(exports, target, exports);
  putAliases(wrapper, exports, wrapper);
  return { result: 'wrapped', exports: wrapper };
}

function patchMember(
  exports: unknown,
  owner: unknown,
  names: readonly string[],
  target: ExportTarget,
): PatchOutcome {
  const last = names.at(-1) as string;
  const name = names.join('.');
  const before = read(owner, last);
  if (!has(owner, last)) return { problem: missing(names, owner), exports };
  if (typeof before !== 'function') return { problem: `${name} is not a function`, exports };
  if (before !== read(owner, last))
    return { problem: `${name} is a different function each time it is read`, exports };
  const isStandIn = isLocked(owner as object, last);
  const locked = { problem: `${name} cannot be replaced: it is not configurable`, exports };
  // Check before wrapping: a wrapper becomes the `constructor` of its class's instances.
  if (isStandIn && (owner !== exports || !canStandFor(exports as object, last))) return locked;
  const wrapper = wrapOne(before as Callable, target);
  if (wrapper === before) return verdict(before, target, exports);
  const isPut = !isStandIn && put(owner as object, last, before, wrapper);
  if (!isPut && !isStandIn) return locked;
  if (owner !== exports) return { result: 'wrapped', exports };
  const whole =
    exports === before ? wrapper : isPut ? exports : standingFor(exports as object, before, wrapper);
  putAliases(whole as object, before, wrapper);
  return { result: 'wrapped', exports: whole };
}

function isLocked(owner: object, key: string): boolean {
  if (types.isModuleNamespaceObject(owner)) return true;
  const own = Object.getOwnPropertyDescriptor(owner, findPlace(owner, key)?.key ?? key);
  return own === undefined ? !Object.isExtensible(owner) : !own.configurable && own.writable !== true;
}

/** Replaces the function in place; false if the property is locked. Keeps the property's flags, and a getter stays live. */
function put(owner: object, key: string, before: unknown, wrapper: Callable): boolean {
  if (types.isModuleNamespaceObject(owner)) return false;
  const place = findPlace(owner, key);
  if (place === undefined) return false;
  const { get } = place.descriptor;
  const inPlace = get === undefined ? { value: wrapper } : { get: exchanging(get, before, wrapper) };
  try {
    return putInPlace(place, inPlace) && read(owner, key) === wrapper;
  } catch {
    return false;
  }
}

/** One function under several names stays one: `a === b`. Getters of other names do not run. */
function putAliases(exports: object, before: unknown, wrapper: Callable): void {
  for (const key of Reflect.ownKeys(exports)) {
    const descriptor = Object.getOwnPropertyDescriptor(exports, key);
    if (descriptor === undefined || !('value' in descriptor) || descriptor.value !== before) continue;
    if (key !== 'constructor') Reflect.defineProperty(exports, key, { ...descriptor, value: wrapper });
  }
}

function exchanging(getter: () => unknown, before: unknown, wrapper: Callable): () => unknown {
  return function (this: unknown): unknown {
    const value = Reflect.apply(getter, this, []);
    return value === before ? wrapper : value;
  };
}

/**
 * Whether another object can stand in for exports with a locked property: a getter as esbuild, webpack and tsc emit it.
 * Only plain objects and functions qualify: methods of others may need the very object, for its private members.
 */
function canStandFor(exports: object, key: string): boolean {
  if (types.isModuleNamespaceObject(exports) || types.isProxy(exports)) return false;
  const own = Object.getOwnPropertyDescriptor(exports, findPlace(exports, key)?.key ?? key);
  if (own?.get === undefined) return false;
  if (typeof exports === 'function') return !hasPrivateStatics(exports as Callable);
  const prototype = Object.getPrototypeOf(exports) as unknown;
  return prototype === null || prototype === Object.prototype;
}

/** A stand-in that behaves as the exports, but gives the wrapper for each name of the function. */
function standingFor(exports: object, before: unknown, wrapper: Callable): object {
  return new Proxy(exports, {
    get(target, key, receiver) {
      const value: unknown = Reflect.get(target, key, receiver);
      if (value !== before) return value;
      const own = Object.getOwnPropertyDescriptor(target, key);
      // A proxy must report the true value of a constant property.
      const isConstant = own !== undefined && !own.configurable && own.writable === false;
      return isConstant ? value : wrapper;
    },
  });
}

function wrapOne(fn: Callable, target: ExportTarget): Callable {
  const method = target.path.result?.join('.');
  // Parameters of a factory's method are unknown until an object exists.
  if (method !== undefined) return wrapFactory(fn, { [method]: target.slotFor(undefined) }, target.onMethod);
  return wrapFunction(fn, target.slotFor(parameterNames(fn)));
}

/** The function came back unchanged: it was captured before, or cannot be wrapped. */
function verdict(fn: unknown, target: ExportTarget, exports: unknown): PatchOutcome {
  if (target.path.result !== undefined) return { result: 'already', exports };
  const held = heldOf(fn);
  const slot = target.slotFor(parameterNames(fn as Callable));
  if (held?.slot === slot) return { result: 'already', exports };
  const problem = held
    ? `the target ${held.slot.plan.id} captures the same function`
    : 'a class with private static members cannot be wrapped: name its methods instead';
  return { problem, exports };
}

function walk(exports: unknown, names: readonly string[]): { value: unknown } | { problem: string } {
  let value = exports;
  for (const [index, name] of names.entries()) {
    if (!has(value, name)) return { problem: missing(names.slice(0, index + 1), value) };
    value = read(value, name);
  }
  return canHaveProperties(value) ? { value } : { problem: `${names.join('.')} is not an object` };
}

function missing(names: readonly string[], owner: unknown): string {
  const last = names.at(-1) as string;
  const hint = didYouMean(last, memberNames(owner));
  return names.length === 1
    ? `the module has no export ${last}${hint}`
    : `there is no ${names.join('.')}${hint}`;
}

function memberNames(owner: unknown): string[] {
  const names = new Set<string>();
  let holder = canHaveProperties(owner) ? owner : null;
  while (holder !== null && holder !== Object.prototype && holder !== Function.prototype) {
    for (const name of Object.getOwnPropertyNames(holder)) names.add(name);
    holder = Object.getPrototypeOf(holder) as object | null;
  }
  return [...names];
}

function has(owner: unknown, key: string): boolean {
  return findPlace(owner, key) !== undefined;
}

function read(owner: unknown, key: string): unknown {
  try {
    return canHaveProperties(owner) ? Reflect.get(owner, findPlace(owner, key)?.key ?? key) : undefined;
  } catch {
    return undefined;
  }
}

interface ResolvedPackage {
  /** The file that `require` loads; `undefined` for a package that only `import` can load. */
  readonly file: string | undefined;
}

function resolvePackage(specifier: string, baseDir: string): ResolvedPackage | { problem: string } {
  if (isBuiltin(specifier)) return { file: undefined };
  if (specifier.startsWith('node:')) {
    const known = builtinModules.map((name) => (name.startsWith('node:') ? name : `node:${name}`));
    return { problem: `Node has no module ${specifier}${didYouMean(specifier, known)}` };
  }
  try {
    return { file: createRequire(path.join(baseDir, 'noop.js')).resolve(specifier) };
  } catch (error) {
    return withoutRequire(specifier, baseDir, (error as { code?: string }).code);
  }
}

/** `require` found nothing: a package for `import` only, a wrong subpath, or no such package. */
function withoutRequire(
  specifier: string,
  baseDir: string,
  code: string | undefined,
): ResolvedPackage | { problem: string } {
  if (specifier.startsWith('#')) return { problem: `no package.json above ${baseDir} maps ${specifier}` };
  const name = packageName(specifier);
  const folder = installedManifest(name, baseDir)?.folder;
  if (folder === undefined) {
    return {
      problem: `no package ${name} is installed for ${baseDir}${didYouMean(name, installed(baseDir))}`,
    };
  }
  const subpath = `.${specifier.slice(name.length)}`;
  if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED' && isExported(folder, subpath)) return { file: undefined };
  const exported = exportedPaths(folder).map((each) => name + each.slice(1));
  return { problem: `the package ${name} has no entry ${specifier}${didYouMean(specifier, exported)}` };
}

/** Names that load the module: a Node module has one with `node:` and one without. */
export function namesOf(specifier: string): readonly string[] {
  const plain = specifier.replace(/^node:/, '');
  return isBuiltin(specifier) ? [plain, `node:${plain}`] : [specifier];
}

function* moduleFolders(baseDir: string): Iterable<string> {
  for (let folder = path.resolve(baseDir); ; folder = path.dirname(folder)) {
    yield path.join(folder, 'node_modules');
    if (path.dirname(folder) === folder) return;
  }
}

function installed(baseDir: string): string[] {
  const names: string[] = [];
  for (const modules of moduleFolders(baseDir)) {
    for (const entry of list(modules)) {
      if (entry.startsWith('@'))
        names.push(...list(path.join(modules, entry)).map((each) => `${entry}/${each}`));
      else if (!entry.startsWith('.')) names.push(entry);
    }
  }
  return names;
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function exportedPaths(folder: string): string[] {
  const map = readManifest(folder)?.exports;
  if (map === null || typeof map !== 'object' || Array.isArray(map)) return ['.'];
  const keys = Object.keys(map);
  return keys.some((key) => key.startsWith('.')) ? keys : ['.'];
}

/** Whether some condition exports the subpath. Node decides which one applies. */
function isExported(folder: string, subpath: string): boolean {
  return exportedPaths(folder).some((key) => {
    const star = key.indexOf('*');
    if (star < 0) return key === subpath;
    return subpath.startsWith(key.slice(0, star)) && subpath.endsWith(key.slice(star + 1));
  });
}

/** One export of a package in node_modules, to be captured. */
export interface PackageTarget {
  readonly id: string;
  /** As in the configuration: `stripe`, `@scope/name/sub`, `node:fs`. */
  readonly specifier: string;
  readonly functionPath: string;
  /** Absolute; the specifier is resolved from here. */
  readonly baseDir: string;
  /**
   * The slot of the target, made on the first call. Throws `SvcError` if the plan cannot be made (an expression that
   * does not parse): the function then stays as it is, and the target has failed.
   */
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
}

/** State changes of targets in builds of their package; without builds, of the package as a whole. No method throws. */
interface PatchEvents {
  patched(id: string, builds?: readonly string[]): void;
  failed(id: string, reason: string, builds?: readonly string[]): void;
  isPatched(id: string, builds?: readonly string[]): boolean;
}

import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  installedManifest,
  isFile,
  type Manifest,
  nearestManifest,
  readManifest,
} from '../../ground/files.ts';
import { inEachForm, nearestNames } from '../../ground/names.ts';
import type { Definition, Follower } from './follow-export.ts';
import { parseFunctionPath } from './function-path.ts';
import { nodeFlags, packageName, resolveSpecifier } from './resolve-specifier.ts';
import type { SourceEvents, SourceTarget } from './rewrite-text.ts';
import { isProblem, type Problem } from './wrapper-place.ts';

export type TargetFiles = ReadonlyMap<string, readonly SourceTarget[]>;

interface TargetFile {
  readonly path: string;
  readonly targets: readonly SourceTarget[];
  readonly ofPackage?: PackageFile;
}

/** The targets in a file that is being loaded. Called for every module of the application, so a miss must be fast. */
export function targetFileLookup(
  files: TargetFiles,
  ofPackages: (path: string) => PackageFile | undefined = () => undefined,
): { byPath(path: string): TargetFile | undefined; byUrl(url: string): TargetFile | undefined } {
  const names = new Set([...files.keys()].map((path) => basename(path)));
  const isLinked = keepsLinks();

  const byPath = (given: string): TargetFile | undefined => {
    const path = isLinked || (names.has(basename(given)) && !files.has(given)) ? realPath(given) : given;
    const targets = files.get(path);
    if (targets) return { path, targets };
    // A package is known by the folder of its file, or of the link to it.
    const linked = path === given ? undefined : ofPackages(given);
    const file = ofPackages(path) ?? linked;
    return file && { path, targets: file.targets, ofPackage: file };
  };

  const byUrl = (url: string) => {
    if (!url.startsWith('file:')) return undefined;
    const plain = url.replace(/[?#].*$/s, '');
    const name = plain.slice(plain.lastIndexOf('/') + 1);
    const isPossible = isLinked || names.has(name) || name.includes('%') || plain.includes('/node_modules/');
    return isPossible ? byPath(fileURLToPath(plain)) : undefined;
  };

  return { byPath, byUrl };
}

/** Whether Node loads modules under the paths of links (`--preserve-symlinks`). */
function keepsLinks(): boolean {
  const { NODE_PRESERVE_SYMLINKS: all, NODE_PRESERVE_SYMLINKS_MAIN: main } = process.env;
  if (all === '1' || main === '1') return true;
  return nodeFlags().some((flag) => /^--preserve-symlinks(-main)?$/.test(flag));
}

export const stemOf = (file: string): string => basename(file, extname(file));

const extensions = ['.ts', '.js', '.mts', '.mjs', '.cts', '.cjs', '.tsx', '.jsx'];

/** The real path of a file, or suggestions. Paths in messages are relative to `baseDir`. */
function ownFile(path: string, baseDir: string): string | Problem {
  if (isFile(path)) return realpathSync(path);
  const shown = shownPath(path, baseDir);
  const others = variants(path).filter(isFile);
  if (others.length > 0) {
    const names = others.slice(0, 3).map((each) => shownPath(each, baseDir));
    return { problem: `no such file: ${shown} (did you mean ${names.join(', ')}?)` };
  }
  const folder = dirname(path);
  if (!isFolder(folder))
    return { problem: `no such file: ${shown} (there is no folder ${shownPath(folder, baseDir)})` };
  const near = nearFiles(path, folder).map((name) => shownPath(join(folder, name), baseDir));
  return { problem: `no such file: ${shown}${near.length > 0 ? ` (did you mean ${near.join(', ')}?)` : ''}` };
}

/** The file that loaders take for a path without extension, a folder, or the `.js` of TypeScript. Ambiguity is a problem. */
export function resolveOwnFile(path: string, baseDir: string): string | Problem {
  const found = filesFor(path);
  if (found.length === 0 || found[0] === path) return ownFile(path, baseDir);
  const [file = '', ...others] = found;
  if (others.length === 0) return realpathSync(file);
  const names = found.map((each) => shownPath(each, baseDir));
  return { problem: `${shownPath(path, baseDir)} may be ${names.join(' or ')}: name one of them` };
}

/** The path itself, and all files that a loader may take for it. */
export const filesFor = (path: string): string[] => [path, ...asWritten(path)].filter(isFile);

/** The candidates of loaders, in groups: a group with a file hides the later ones. */
function asWritten(path: string): readonly string[] {
  const typed = typedOf[extname(path)];
  if (typed !== undefined) return typed.map((each) => path.slice(0, -extname(path).length) + each);
  const main = readManifest(path)?.main;
  const groups = [path, ...(main === undefined ? [] : [join(path, main)]), join(path, 'index')].map(
    (stem) => [...(stem === path ? [] : [stem]), ...tried.map((extension) => stem + extension)],
  );
  return groups.find((group) => group.some(isFile)) ?? [];
}

const tried = ['.ts', '.tsx', '.js', '.jsx'];
const typedOf: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
};

const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory();

/** Files in the folder with a similar name; the extension is ignored. */
function nearFiles(path: string, folder: string): string[] {
  const names = readdirSync(folder).filter((name) => extensions.includes(extname(name)));
  const stems = nearestNames(stemOf(path), names.map(stemOf));
  return stems.flatMap((stem) => names.filter((name) => stemOf(name) === stem)).slice(0, 3);
}

/** Candidates such as `./src/orders.ts` for `./src/orders.js`, and `./src/orders/index.ts` for `./src/orders`. */
function variants(path: string): string[] {
  const stem = extensions.includes(extname(path)) ? path.slice(0, -extname(path).length) : path;
  return [stem, join(stem, 'index')].flatMap((each) => extensions.map((extension) => each + extension));
}

export function shownPath(path: string, baseDir: string): string {
  const short = relative(baseDir, path).replaceAll('\\', '/');
  return /^\.\.?(\/|$)/.test(short) ? short : `./${short}`;
}

/** One package that svc changes on load. Plain data: it is sent to the loader thread. */
export interface PendingPackage {
  readonly specifier: string;
  readonly from: string;
  readonly targets: readonly SourceTarget[];
  /** The key of a patch for its exports; `undefined` if it only has targets. */
  readonly patch: string | undefined;
}

/** The work on one file of a package. The ids of its targets are those of `inBuilds`. */
export interface PackageFile {
  readonly targets: readonly SourceTarget[];
  /** Exports that the file, as the entry of a build, should have but lacks. */
  readonly missing: readonly { readonly id: string; readonly problem: string }[];
  /** Keys of the receivers of its exports, called after it has run. */
  readonly patches: readonly string[];
}

/** The work on a file that is being loaded, by its real path. Called for every module, so a miss must be fast. */
type PackageFiles = (path: string) => PackageFile | undefined;

/**
 * The id of a target in builds of its package: for `import`, for `require`, a file for neither (`./src/orders.ts`), and
 * the folders of other copies. The loader thread and inserted calls use the same text.
 */
export function inBuilds(id: string, builds: Iterable<string>): string {
  return [id, ...builds].join('\n');
}

/** Splits an id of `inBuilds` into the target and the builds; the builds are missing for a file found by its name alone. */
export function buildsOf(id: string): {
  readonly id: string;
  readonly builds: readonly string[] | undefined;
} {
  const [plain = '', ...builds] = id.split('\n');
  return { id: plain, builds: builds.length === 0 ? undefined : builds };
}

interface PendingTargets {
  readonly each: PendingPackage;
  readonly name: string;
  /** The folder of the copy that the application itself loads. */
  readonly folder: string | undefined;
}

/**
 * Reads nothing until a file of one of the packages, or of their dependencies, is loaded; then follows the exports of
 * its targets. Never throws. `follow`: created on first use, because it loads the parser.
 */
export function packageFiles(
  packages: readonly PendingPackage[],
  follow: () => Follower,
  events: SourceEvents,
): PackageFiles {
  const byName = new Map<string, PendingTargets[]>();
  const known: Known = new Map();
  const done = new Set<string>();

  const pending = packages
    .filter(({ specifier }) => !isBuiltin(specifier))
    .map((each): PendingTargets => {
      const name = packageName(each.specifier);
      const manifest = installedManifest(name, each.from);
      return { each, name, folder: manifest && realPath(manifest.folder) };
    });
  const listen = (name: string, one: PendingTargets) => {
    const list = byName.get(name) ?? [];
    if (!list.includes(one)) byName.set(name, [...list, one]);
  };
  for (const one of pending) {
    listen(one.name, one);
    if (one.folder === undefined) continue;
    const own = placeIn(`${one.folder}/`);
    if (own) listen(own.name, one);
    // Its dependencies may be loaded first.
    const manifest = one.each.targets.length > 0 ? readManifest(one.folder) : undefined;
    for (const name of manifest?.dependencies ?? []) listen(name, one);
  }
  if (pending.length === 0) return () => undefined;

  let follower: Follower | undefined;
  const search = ({ each, folder }: PendingTargets, at: string) => {
    const key = `${each.from}\n${each.specifier}\n${at}`;
    if (done.has(key)) return;
    done.add(key);
    // Another copy is resolved from its own surroundings.
    const from = at === folder ? each.from : (placeIn(`${at}/`)?.owner ?? at);
    followAll(each, from, at === folder ? undefined : at, () => (follower ??= follow()), known);
  };
  /** Only when the entry itself is loaded: the other of two builds may never be. */
  const tell = (file: PackageFile | undefined): PackageFile | undefined => {
    for (const { id, problem } of file?.missing ?? []) events.problem(id, problem);
    return file;
  };

  const real = new Map<string, string>();
  /** With preserved links, the linked folder is the application's own copy too. */
  const realFolder = (folder: string): string => {
    const known = real.get(folder) ?? realPath(folder);
    real.set(folder, known);
    return known;
  };

  return (path) => {
    const place = placeIn(path);
    if (place === undefined) return tell(known.get(path));
    const wanted = byName.get(place.name);
    if (wanted === undefined) return tell(known.get(path));
    for (const one of wanted) {
      // A dependency, or a package under another name, is the application's copy.
      const at = one.name === place.name ? realFolder(place.folder) : one.folder;
      if (at !== undefined) search(one, at);
    }
    return tell(known.get(path)) ?? nothing;
  };
}

type Known = Map<
  string,
  { targets: SourceTarget[]; patches: string[]; missing: PackageFile['missing'][number][] }
>;

/** Adds to `known` the work on a package's files, as resolved from a folder. `copy`: a folder that the application skips. */
function followAll(
  each: PendingPackage,
  from: string,
  copy: string | undefined,
  follow: () => Follower,
  known: Known,
): void {
  const fileOf = (path: string) => {
    const file = known.get(path) ?? { targets: [], patches: [], missing: [] };
    known.set(path, file);
    return file;
  };
  const entries = new Map<string, string[]>();
  for (const way of ['import', 'require'] as const) {
    const entry = resolveSpecifier(each.specifier, join(from, 'noop.js'), way);
    if (entry !== undefined)
      entries.set(entry, copy === undefined ? [...(entries.get(entry) ?? []), way] : [copy]);
  }
  for (const entry of entries.keys())
    if (each.patch !== undefined && !fileOf(entry).patches.includes(each.patch))
      fileOf(entry).patches.push(each.patch);
  for (const target of each.targets) {
    const path = parseFunctionPath(target.functionPath);
    if (isProblem(path)) continue;
    const found = new Map<string, { readonly definition: Definition; readonly builds: Set<string> }>();
    for (const [entry, builds] of entries) {
      const definitions = follow().follow(entry, path.names);
      if (definitions.length === 0)
        fileOf(entry).missing.push({
          id: inBuilds(target.id, builds),
          problem: follow().missing(entry, path.names),
        });
      for (const definition of definitions) {
        const key = `${definition.file}\n${definition.names?.join('.')}`;
        const one = found.get(key) ?? { definition, builds: new Set() };
        for (const build of builds) one.builds.add(build);
        found.set(key, one);
      }
    }
    for (const { definition, builds } of found.values())
      add(fileOf(definition.file).targets, asTarget(inBuilds(target.id, builds), definition, path.result));
  }
}

/** For `svc check`: the same for the application's own copy, before any of it is loaded. */
export function filesOfPackage(
  each: PendingPackage,
  follow: () => Follower,
): ReadonlyMap<string, PackageFile> {
  const known: Known = new Map();
  followAll(each, each.from, undefined, follow, known);
  return known;
}

/** A function missing in a CommonJS text is looked for in the exports later, so it is not a problem yet. */
export function untold(targets: readonly SourceTarget[], events: SourceEvents): [SourceEvents, Set<string>] {
  const inserted = new Set<string>();
  const waiting = new Set(targets.filter(({ exported }) => exported !== undefined).map(({ id }) => id));
  const told: SourceEvents = {
    ...events,
    found(id, ...rest) {
      const isTaken = events.found(id, ...rest);
      // If its plan cannot be made, the plan for its export cannot either.
      inserted.add(id);
      return isTaken;
    },
    problem(id, ...rest) {
      if (!waiting.has(id)) events.problem(id, ...rest);
    },
  };
  return [told, inserted];
}

const nothing: PackageFile = { targets: [], patches: [], missing: [] };

function add(list: SourceTarget[], target: SourceTarget): void {
  const { id } = buildsOf(target.id);
  if (!list.some((each) => buildsOf(each.id).id === id && each.functionPath === target.functionPath))
    list.push(target);
}

function asTarget(id: string, definition: Definition, result: readonly string[] | undefined): SourceTarget {
  const { names, exported, isModule, isAssignable } = definition;
  const returned = result === undefined ? '' : `()${result.map((each) => `.${each}`).join('')}`;
  const [binding, ...path] = names ?? [];
  return {
    id,
    // Without names it is looked for in the exports only.
    functionPath: names === undefined ? '' : names.join('.') + returned,
    exported,
    late:
      isModule && binding !== undefined && binding !== 'default'
        ? { binding, path, isAssignable }
        : undefined,
  };
}

function placeIn(path: string): { name: string; folder: string; owner: string } | undefined {
  const at = Math.max(path.lastIndexOf('/node_modules/'), path.lastIndexOf('\\node_modules\\'));
  if (at < 0) return undefined;
  const start = at + '/node_modules/'.length;
  const [first = '', second = ''] = path.slice(start).split(/[\\/]/, 2);
  const length = first.startsWith('@') ? first.length + 1 + second.length : first.length;
  const name = first.startsWith('@') ? `${first}/${second}` : first;
  return { name, folder: path.slice(0, start + length), owner: path.slice(0, at) };
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

type Located =
  /**
   * Real paths of own files: usually one. Several, with their builds, if a package has one for `import` and one for
   * `require`.
   */
  | { readonly paths: readonly string[]; readonly builds?: ReadonlyMap<string, readonly string[]> }
  /** An installed package, and the folder from which it is resolved. */
  | { readonly specifier: string; readonly from: string }
  | Problem;

/** Tells the application's own files, including workspace packages, from packages in node_modules. Loads nothing. */
export function locate(module: string, baseDir: string): Located {
  if (module.startsWith('file:')) return one(resolveOwnFile(fileURLToPath(module), baseDir));
  if (isPath(module)) return one(resolveOwnFile(asNamed(resolve(baseDir, portable(module))), baseDir));
  if (module.startsWith('#')) return withBuilds(imported(module, baseDir), module, baseDir);
  if (isBuiltin(module)) return { specifier: module, from: baseDir };
  const own = ownPackage(module, baseDir);
  return (
    (own && withBuilds(own, module, baseDir)) ??
    forgottenDot(module, baseDir) ?? { specifier: asInstalled(module, baseDir), from: baseDir }
  );
}

/** The missing file that a path names: builds of it may exist. */
export function missingFile(module: string, baseDir: string): string | undefined {
  if (!isPath(module)) return undefined;
  const path = asNamed(resolve(baseDir, portable(module)));
  return filesFor(path).length === 0 ? path : undefined;
}

/**
 * The path with the spelling of the file system: both normal forms of Unicode (NFC, NFD) match. The extension of the last name
 * may be missing or different. The path itself if nothing matches.
 */
function asNamed(path: string): string {
  if (inEachForm(path).length === 1 || existsSync(path)) return path;
  const above = dirname(path);
  if (above === path) return path;
  const folder = asNamed(above);
  const name = basename(path);
  try {
    const names = readdirSync(folder);
    const same = names.find((each) => isSameName(each, name));
    if (same !== undefined) return join(folder, same);
    const stems = [name, name.slice(0, name.length - extname(name).length)];
    for (const stem of stems)
      for (const each of names) {
        const known = basename(each, extname(each));
        if (isSameName(known, stem)) return join(folder, known + name.slice(stem.length));
      }
  } catch {
    // The folder does not exist.
  }
  return join(folder, name);
}

function isSameName(one: string, other: string): boolean {
  return one === other || one.normalize('NFC') === other.normalize('NFC');
}

/** A subpath of a package, in the Unicode normalization that exists. */
function asInstalled(module: string, baseDir: string): string {
  const forms = inEachForm(module);
  const from = join(baseDir, 'noop.js');
  const isThere = (form: string) =>
    (['import', 'require'] as const).some((way) => resolveSpecifier(form, from, way) !== undefined);
  return (forms.length === 1 ? undefined : forms.find(isThere)) ?? module;
}

/** Adds which of several files `import` loads, and which `require`. A file of other conditions is a separate build. */
function withBuilds(located: Located, module: string, baseDir: string): Located {
  if (!('paths' in located) || located.paths.length === 1) return located;
  const from = join(baseDir, 'noop.js');
  const waysTo = (path: string) =>
    (['import', 'require'] as const).filter((way) => resolveSpecifier(module, from, way) === path);
  const buildsAt = (path: string) => {
    const ways = waysTo(path);
    return ways.length > 0 ? ways : [shownPath(path, baseDir)];
  };
  return { ...located, builds: new Map(located.paths.map((path) => [path, buildsAt(path)])) };
}

function one(path: string | Problem): Located {
  return typeof path === 'string' ? { paths: [path] } : path;
}

function isPath(module: string): boolean {
  return (
    /^\.{1,2}([\\/]|$)/.test(module) ||
    isAbsolute(module) ||
    module.includes('\\') ||
    /^[A-Za-z]:/.test(module)
  );
}

/** Makes a configuration from Windows work everywhere. */
function portable(module: string): string {
  return sep === '/' ? module.replaceAll('\\', '/') : module;
}

function imported(module: string, baseDir: string): Located {
  const manifest = nearestManifest(baseDir);
  if (!manifest) return { problem: `no package.json for ${module} in this folder or above it` };
  const targets = mapped(manifest.imports, module);
  if (targets.length === 0) return { problem: `the package.json above has no "imports" entry for ${module}` };
  const [first = ''] = targets;
  if (!targets.some((target) => target.startsWith('.'))) return locate(first, manifest.folder);
  return existing(manifest, targets, module, baseDir);
}

/** A workspace package, linked into node_modules from elsewhere. Also the package that contains baseDir, by its name. */
function ownPackage(module: string, baseDir: string): Located | undefined {
  const [, name, rest = ''] = /^((?:@[^/]+\/)?[^/]+)(\/.*)?$/.exec(module) ?? [];
  if (name === undefined) return undefined;
  const self = nearestManifest(baseDir);
  const manifest = self?.name === name && self.exports ? self : linked(name, baseDir);
  if (!manifest) return undefined;
  const targets = manifest.exports
    ? mapped(manifest.exports, `.${rest}`)
    : (rest === '' ? [manifest.main ?? 'index.js'] : [rest]).flatMap((path) => {
        const plain = `./${path.replace(/^\.?\//, '')}`;
        return [plain, `${plain}.js`, `${plain}/index.js`];
      });
  if (targets.length === 0) return { problem: `the package ${name} exports no ".${rest}"` };
  return existing(manifest, targets, module, baseDir);
}

function linked(name: string, baseDir: string): Manifest | undefined {
  const found = installedManifest(name, baseDir);
  const real = found && realpathSync(found.folder);
  return real === undefined || real.split(sep).includes('node_modules') ? undefined : readManifest(real);
}

function existing(manifest: Manifest, targets: readonly string[], module: string, baseDir: string): Located {
  const paths = new Set<string>();
  let problem: Problem | undefined;
  for (const target of targets) {
    const found = ownFile(join(manifest.folder, target), baseDir);
    if (typeof found === 'string') paths.add(found);
    else problem ??= found;
  }
  if (paths.size > 0) return { paths: [...paths] };
  return { problem: `${module} leads to no file: ${problem?.problem ?? 'no file'}` };
}

/** `src/orders.ts` and `src/orders.js` for `./src/orders.ts`. */
function forgottenDot(module: string, baseDir: string): Problem | undefined {
  const file = resolveOwnFile(resolve(baseDir, module), baseDir);
  return isProblem(Object(file)) || readManifest(join(baseDir, 'node_modules', module))
    ? undefined
    : { problem: `${module} is a package name (did you mean ./${module}?)` };
}

const foreignConditions = new Set(['types', 'browser', 'deno', 'bun', 'worker', 'react-native']);

/** Values of a key in an `exports` or `imports` map, under any condition: `import` and `require` may differ. */
function mapped(map: unknown, key: string): string[] {
  if (typeof map === 'string' || Array.isArray(map)) return key === '.' ? leaves(map, '') : [];
  if (typeof map !== 'object' || map === null) return [];
  const entries = map as Record<string, unknown>;
  const isConditions = !Object.keys(entries).some((each) => each.startsWith('.') || each.startsWith('#'));
  if (isConditions) return key === '.' ? leaves(map, '') : [];
  const form = inEachForm(key).find((each) => each in entries);
  if (form !== undefined) return leaves(entries[form], '');
  let best: { pattern: string; star: string } | undefined;
  for (const pattern of Object.keys(entries)) {
    const [before, after] = pattern.split('*');
    if (before === undefined || after === undefined) continue;
    const fits = key.startsWith(before) && key.endsWith(after) && key.length > before.length + after.length;
    const isLonger = !best || before.length > (best.pattern.split('*')[0] ?? '').length;
    if (fits && isLonger) best = { pattern, star: key.slice(before.length, key.length - after.length) };
  }
  return best ? leaves(entries[best.pattern], best.star) : [];
}

function leaves(value: unknown, star: string): string[] {
  if (typeof value === 'string') return [value.replaceAll('*', star)];
  if (Array.isArray(value)) return value.flatMap((each) => leaves(each, star));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([condition, each]) =>
    foreignConditions.has(condition) ? [] : leaves(each, star),
  );
}

import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, resolve, sep } from 'node:path';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { installedManifest, isFile, readManifest } from '../ground/files.ts';
import { printable } from '../observe/logger.ts';
import { listPlaces } from './source/inspect-built.ts';
import { listName, type PlaceList } from './source/listed-places.ts';
import { packageName } from './source/resolve-specifier.ts';
import { rewrite, type SourceEvents, type SourceTarget } from './source/rewrite-text.ts';
import { locate, missingFile, shownPath, targetFileLookup } from './source/target-files.ts';

// What a bundler, Next.js or Vite asks of svc: the calls to insert, the places in built files, and the packages to leave out.

/** Inserts the calls of a module's targets. `undefined`: nothing to insert. `path` may end in a query. */
type InsertTargets = (path: string, text: string, warn: (message: string) => void) => string | undefined;

/**
 * For tools that read the application's files themselves, so that Node does not load them. The result needs `svc/register` with the same
 * configuration. Texts are ES modules without types. Never throws.
 */
export function insertTargets(directory: string): InsertTargets {
  // Works also if svc is switched off for the tool.
  const { targets, baseDir } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } }).config;
  const files = new Map<string, SourceTarget[]>();
  for (const { id, module, function: functionPath } of targets) {
    for (const path of pathsOf(module, baseDir))
      files.set(path, [...(files.get(path) ?? []), { id, functionPath }]);
  }
  const { byPath } = targetFileLookup(files);
  return (path, text, warn) => {
    const file = byPath(path.replace(/[?#].*$/s, ''));
    if (file === undefined) return undefined;
    const events: SourceEvents = {
      found: () => true,
      problem: (id, reason) => warn(`target ${id} is not captured: ${reason}`),
    };
    const inserted = rewrite(file.path, text, { goal: 'module', typed: false }, file.targets, events);
    return inserted === text ? undefined : inserted;
  };
}

/** Empty for a package, and for an invalid target, which svc reports when it runs. */
function pathsOf(module: string, baseDir: string): readonly string[] {
  try {
    const located = locate(module, baseDir);
    return 'paths' in located ? located.paths : [];
  } catch {
    return [];
  }
}

/** The result of `svc manifest`. */
interface WrittenList {
  readonly file: string;
  /** Targets by id, with the built files that contain them. `reason`: why a target is in no file. */
  readonly targets: readonly {
    readonly id: string;
    readonly files: readonly string[];
    readonly reason?: string;
  }[];
}

/** Writes the list of places beside the configuration. `searched`: absolute, built files and folders of them. */
export function writeList({ targets, baseDir }: Config, searched: readonly string[]): WrittenList {
  const built = searched.flatMap((each) => (isFile(each) ? [realpathSync(each)] : scriptsBelow(each)));
  const pending = new Map<string, SourceTarget[]>();
  const ids: string[] = [];
  for (const { id, module, function: functionPath } of targets) {
    const located = locate(module, baseDir);
    const missing = missingFile(module, baseDir);
    const paths = 'paths' in located ? located.paths : missing === undefined ? [] : [missing];
    if (paths.length > 0) ids.push(id);
    for (const path of paths) pending.set(path, [...(pending.get(path) ?? []), { id, functionPath }]);
  }
  const reasons = new Map<string, string>();
  const list = listPlaces(pending, built, searched, baseDir, {
    found: () => true,
    problem: (id, reason) => void reasons.set(id, reason),
    unreadMap: (file, reason) => {
      for (const id of ids)
        reasons.set(id, `the source map of ${shownPath(file, baseDir)} is not used: ${reason}`);
    },
  });
  const file = join(baseDir, listName);
  writeFileSync(file, `${JSON.stringify(list)}\n`);
  const filesOf = (id: string) =>
    Object.entries(list.files).flatMap(([path, each]) =>
      each.targets.some((target) => target.id === id) ? [`./${path}`] : [],
    );
  return {
    file,
    targets: ids.map((id) => {
      const reason = reasons.get(id);
      const files = filesOf(id);
      return { id, files, ...(files.length === 0 && { reason: reason ?? 'in no JavaScript that was read' }) };
    }),
  };
}

/** Writes an empty list if the file does not exist: bundlers look for the files to copy before the build has ended. */
export function reserveList(directory: string): void {
  const file = join(directory, listName);
  const empty: PlaceList = { version: 1, searched: [], files: {} };
  if (!existsSync(file)) writeFileSync(file, `${JSON.stringify(empty)}\n`);
}

/** Writes the list at the end of a build. Never throws: the build goes on. */
export function writeListOf(directory: string, searched: readonly string[]): void {
  try {
    const { config } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } });
    if (config.file === undefined || config.targets.length === 0) return;
    for (const { id, reason } of writeList(config, searched).targets)
      if (reason !== undefined) process.stderr.write(`svc: target ${printable(id)}: ${printable(reason)}\n`);
  } catch (error) {
    process.stderr.write(`svc: ${listName} is not written: ${printable((error as Error).message)}\n`);
  }
}

/** JavaScript below a folder, without packages. Empty if the folder does not exist. */
export function scriptsBelow(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.[cm]?js$/.test(file) && !/(^|[\\/])node_modules[\\/]/.test(file))
      .map((file) => realpathSync(join(folder, file)));
  } catch {
    return [];
  }
}

interface NeededPackages {
  /** Packages that svc patches as Node loads them, so they must not be bundled: svc, the drivers and ORMs, and packages of targets. */
  readonly unbundled: readonly string[];
  /** Absolute folders that svc loads from, with their dependencies. Contains symbolic links and their destinations. */
  readonly folders: readonly string[];
  /** Absolute: the configuration file, if there is one. */
  readonly files: readonly string[];
}

/**
 * `followed`: the packages that svc patches to follow transactions. `root`: absolute; folders outside it are left out. Default: the
 * outermost folder with packages that svc is installed in. Never throws: svc reports errors of the configuration when the application
 * starts.
 */
export function neededPackages(
  directory: string,
  followed: readonly string[],
  root?: string,
): NeededPackages {
  // Works also if svc is switched off for the build.
  const { file, targets } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } }).config;
  const named = [...followed, ...targets.map(({ module }) => module)]
    .filter((specifier) => !/^[./#]|^[A-Za-z]:/.test(specifier) && !isBuiltin(specifier))
    .map(packageName);
  const folders = new Set<string>();
  addPackage('svc', directory, folders);
  const files = file === undefined ? [] : [resolve(directory, file)];
  const outermost = root ?? rootOf([...folders].slice(0, 2));
  const isInside = (each: string) => each.startsWith(join(outermost, sep));
  return {
    unbundled: [...new Set(['svc', ...named])],
    folders: [...folders].filter(isInside),
    files: files.filter(isInside),
  };
}

/** Optional and peer dependencies count if installed, because the configuration decides which are loaded. */
function addPackage(name: string, from: string, folders: Set<string>): void {
  const link = installedManifest(name, from)?.folder;
  if (link === undefined) return;
  const folder = realpathSync(link);
  const isKnown = folders.has(folder);
  folders.add(link).add(folder);
  if (isKnown) return;
  const { dependencies = [], peerDependencies = [] } = readManifest(folder) ?? {};
  for (const each of [...dependencies, ...peerDependencies]) addPackage(each, folder, folders);
}

/** pnpm keeps packages at the root of the workspace, with links to them. */
function rootOf(places: readonly string[]): string {
  const roots = places.map((place) => place.split(`${sep}node_modules${sep}`, 1)[0] ?? place);
  return roots.sort((one, other) => one.length - other.length)[0] ?? '';
}

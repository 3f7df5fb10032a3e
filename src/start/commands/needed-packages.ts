import { realpathSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { packageName } from '../../capture/source/resolve-specifier.ts';
import { loadConfig } from '../../config/read/load.ts';
import { installedManifest, readManifest } from '../../ground/files.ts';
import { followedSpecifiers } from '../drivers.ts';

interface NeededPackages {
  /** Packages that svc patches as Node loads them, so they must not be bundled: svc, the drivers and ORMs, and packages of targets. */
  readonly unbundled: readonly string[];
  /** Absolute folders that svc loads from, with their dependencies. Contains symbolic links and their destinations. */
  readonly folders: readonly string[];
  /** Absolute: the configuration file, if there is one. */
  readonly files: readonly string[];
}

/**
 * `root`: absolute; folders outside it are left out. Default: the outermost folder with packages that svc is installed in. Never throws:
 * svc reports errors of the configuration when the application starts.
 */
export function neededPackages(directory: string, root?: string): NeededPackages {
  // Works also if svc is switched off for the build.
  const { file, targets } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } }).config;
  const named = [...followedSpecifiers(), ...targets.map(({ module }) => module)]
    .filter((specifier) => !/^[./#]|^[A-Za-z]:/.test(specifier) && !isBuiltin(specifier))
    .map(packageName);
  const folders = new Set<string>();
  addPackage('svc', directory, folders);
  const files = file === undefined ? [] : [path.resolve(directory, file)];
  const outermost = root ?? rootOf([...folders].slice(0, 2));
  const isInside = (each: string) => each.startsWith(path.join(outermost, path.sep));
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
  const roots = places.map((place) => place.split(`${path.sep}node_modules${path.sep}`, 1)[0] ?? place);
  return roots.sort((one, other) => one.length - other.length)[0] ?? '';
}

import { realpathSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { packageName } from '../../capture/source/resolve-specifier.ts';
import { loadConfig } from '../../config/read/load.ts';
import { installedManifest, readManifest } from '../../ground/files.ts';
import { followedSpecifiers } from '../drivers.ts';

/** What a bundler has to know of an application with svc. */
export interface NeededPackages {
  /** Names of packages that svc reaches where Node loads them, not in a bundle: svc itself, what it follows, and those of targets. */
  readonly unbundled: readonly string[];
  /** Absolute folders that svc loads from, each with what it depends on; links beside what they lead to. */
  readonly folders: readonly string[];
  /** Absolute; the configuration, where it is a file. */
  readonly files: readonly string[];
}

/**
 * `root`: absolute, and nothing beyond it counts; default: the outermost folder with packages that svc is installed in. Never throws:
 * what is wrong with the configuration is said where the application starts.
 */
export function neededPackages(directory: string, root?: string): NeededPackages {
  // Also where svc is switched off for the build.
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

/** Optional ones and peers count where they are installed: which of them are loaded is a matter of the configuration. */
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

/** pnpm keeps packages at the root of the workspace, and a link where they are needed. */
function rootOf(places: readonly string[]): string {
  const roots = places.map((place) => place.split(`${path.sep}node_modules${path.sep}`, 1)[0] ?? place);
  return roots.sort((one, other) => one.length - other.length)[0] ?? '';
}

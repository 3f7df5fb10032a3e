import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isFile, readManifest } from '../../ground/files.ts';
import { nearestNames } from '../../ground/names.ts';
import { type PackageFile, realPath } from './package-files.ts';
import { nodeFlags } from './resolve-specifier.ts';
import type { SourceTarget } from './rewrite-text.ts';
import type { Problem } from './wrapper-place.ts';

/** The files that targets name, by their real paths. */
export type TargetFiles = ReadonlyMap<string, readonly SourceTarget[]>;

interface TargetFile {
  readonly path: string;
  readonly targets: readonly SourceTarget[];
  readonly ofPackage?: PackageFile;
}

/** Which targets a file that is being loaded has. Asked for every module of the application, so the usual no is quick. */
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
    // A package is known by the folder that its file is in, or that the link is in.
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

/** Whether Node hands out modules under the names of links, which may be others than those of their files. */
function keepsLinks(): boolean {
  const { NODE_PRESERVE_SYMLINKS: all, NODE_PRESERVE_SYMLINKS_MAIN: main } = process.env;
  if (all === '1' || main === '1') return true;
  return nodeFlags().some((flag) => /^--preserve-symlinks(-main)?$/.test(flag));
}

/** What files of this name are called without their extension. */
export const stemOf = (file: string): string => basename(file, extname(file));

/** Loaded files that are called like one that a target names: what it was compiled to, perhaps. */
export function watchNamesakes(files: TargetFiles): {
  see(module: string): void;
  found: ReadonlySet<string>;
} {
  const stems = new Set([...files.keys()].map(stemOf));
  const found = new Set<string>();
  return {
    found,
    see(module) {
      const plain = module.startsWith('file:') ? module.replace(/[?#].*$/s, '') : module;
      if (stems.has(stemOf(plain))) found.add(plain.startsWith('file:') ? fileURLToPath(plain) : plain);
    },
  };
}

const extensions = ['.ts', '.js', '.mts', '.mjs', '.cts', '.cjs', '.tsx', '.jsx'];

/** The real path of a file, or what may have been meant. Paths in messages are relative to `baseDir`. */
export function ownFile(path: string, baseDir: string): string | Problem {
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

/**
 * The file that the application gets for a path without its extension, for a folder, or for the `.js` of what is TypeScript.
 * Where loaders differ, the files are named.
 */
export function resolveOwnFile(path: string, baseDir: string): string | Problem {
  const found = filesFor(path);
  if (found.length === 0 || found[0] === path) return ownFile(path, baseDir);
  const [file = '', ...others] = found;
  if (others.length === 0) return realpathSync(file);
  const names = found.map((each) => shownPath(each, baseDir));
  return { problem: `${shownPath(path, baseDir)} may be ${names.join(' or ')}: name one of them` };
}

/** The path itself, and all that a loader may take for it. */
export const filesFor = (path: string): string[] => [path, ...asWritten(path)].filter(isFile);

/** What loaders try, in groups: a group with a file hides those behind it. */
function asWritten(path: string): readonly string[] {
  const typed = typedOf[extname(path)];
  if (typed !== undefined) return typed.map((each) => path.slice(0, -extname(path).length) + each);
  const main = readManifest(path)?.main;
  const groups = [path, ...(main === undefined ? [] : [join(path, main)]), join(path, 'index')].map(
    (stem) => [...(stem === path ? [] : [stem]), ...tried.map((extension) => stem + extension)],
  );
  return groups.find((group) => group.some(isFile)) ?? [];
}

/** What Node and the loaders of TypeScript try for a path without an extension. */
const tried = ['.ts', '.tsx', '.js', '.jsx'];
const typedOf: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
};

const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory();

/** Files of the folder whose names are like the wanted one; extensions are alike anyway. */
function nearFiles(path: string, folder: string): string[] {
  const stemOf = (name: string) => basename(name, extname(name));
  const names = readdirSync(folder).filter((name) => extensions.includes(extname(name)));
  const stems = nearestNames(stemOf(path), names.map(stemOf));
  return stems.flatMap((stem) => names.filter((name) => stemOf(name) === stem)).slice(0, 3);
}

/** `./src/orders.js` for what is `./src/orders.ts`, `./src/orders` for `./src/orders.ts` or `./src/orders/index.ts`. */
function variants(path: string): string[] {
  const stem = extensions.includes(extname(path)) ? path.slice(0, -extname(path).length) : path;
  return [stem, join(stem, 'index')].flatMap((each) => extensions.map((extension) => each + extension));
}

export function shownPath(path: string, baseDir: string): string {
  const short = relative(baseDir, path).replaceAll('\\', '/');
  return /^\.\.?(\/|$)/.test(short) ? short : `./${short}`;
}

import { basename, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PackageFile, realPath } from './exports/package-files.ts';
import { nodeFlags } from './exports/resolve-specifier.ts';
import type { SourceTarget } from './rewrite-text.ts';

/** The files that targets name, by their real paths. */
export type TargetFiles = ReadonlyMap<string, readonly SourceTarget[]>;

export interface TargetFile {
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

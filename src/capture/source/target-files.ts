import { realpathSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PackageFile } from './exports/package-files.ts';
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

  const byPath = (given: string): TargetFile | undefined => {
    const exact = files.get(given);
    if (exact) return { path: given, targets: exact };
    const file = ofPackages(given);
    if (file) return { path: given, targets: file.targets, ofPackage: file };
    // The link may have another name than the file (package managers link folders, so this is rare).
    if (!names.has(basename(given))) return undefined;
    try {
      const path = realpathSync(given);
      const targets = files.get(path);
      return targets && { path, targets };
    } catch {
      return undefined;
    }
  };

  const byUrl = (url: string) => {
    if (!url.startsWith('file:')) return undefined;
    const plain = url.replace(/[?#].*$/s, '');
    const name = plain.slice(plain.lastIndexOf('/') + 1);
    const isPossible = names.has(name) || name.includes('%') || plain.includes('/node_modules/');
    return isPossible ? byPath(fileURLToPath(plain)) : undefined;
  };

  return { byPath, byUrl };
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

import { readdirSync } from 'node:fs';
import { builtinModules, createRequire, isBuiltin } from 'node:module';
import path from 'node:path';
import { installedManifest, readManifest } from '../../ground/files.ts';
import { didYouMean } from '../../ground/names.ts';
import type { CaptureSlot } from '../slot.ts';
import { packageName } from '../source/resolve-specifier.ts';

interface ResolvedPackage {
  /** What `require` of it loads; `undefined` for a package that only `import` can load. */
  readonly file: string | undefined;
}

/** Finds a package without loading it. */
export function resolvePackage(specifier: string, baseDir: string): ResolvedPackage | { problem: string } {
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

/** `require` found nothing: a package for `import` only, a wrong subpath, or no package at all. */
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

/** What an application can load it by: what is built into Node with and without `node:`. */
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

/** Whether some condition exports the subpath; which one, only Node has to know. */
function isExported(folder: string, subpath: string): boolean {
  return exportedPaths(folder).some((key) => {
    const star = key.indexOf('*');
    if (star < 0) return key === subpath;
    return subpath.startsWith(key.slice(0, star)) && subpath.endsWith(key.slice(star + 1));
  });
}

/** One export of a package in node_modules that is to be captured. */
export interface PackageTarget {
  /** The target's id: `stripe#Stripe.prototype.refund`. */
  readonly id: string;
  /** As written in the configuration: `stripe`, `@scope/name/sub`, `node:fs`. */
  readonly specifier: string;
  readonly functionPath: string;
  /** Absolute; where the specifier is resolved from. */
  readonly baseDir: string;
  /**
   * The slot of the target, made on the first call and the same one after it. Throws `SvcError` when the plan cannot be
   * made (an expression that does not parse): the function then stays as it is, and the target has failed.
   */
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
}

/** What becomes of targets in which builds of their package, told as it happens; without builds, as a whole. None throws. */
export interface PatchEvents {
  /** The function holds its wrapper now. */
  patched(id: string, builds?: readonly string[]): void;
  failed(id: string, reason: string, builds?: readonly string[]): void;
  isPatched(id: string, builds?: readonly string[]): boolean;
}

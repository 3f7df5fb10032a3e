import { readFileSync } from 'node:fs';
import { basename, dirname, relative, sep } from 'node:path';
import { nearestManifest } from '../../ground/files.ts';
import { readMap, sourcesAt } from './source-map.ts';
import { stemOf } from './target-files.ts';
import { isProblem } from './wrapper-place.ts';

/**
 * Which loaded file was built from `source`, by its source map, or for TypeScript by its name. `readsMaps`: false in a
 * running process, where files with a target and a source map have reported already.
 */
export function compiledFrom(
  source: string,
  loaded: Iterable<string>,
  baseDir: string,
  readsMaps = true,
): string | undefined {
  if (!readsMaps) return compiledByName(source, loaded, baseDir);
  const others = [...loaded].filter((file) => file !== source && /\.[cm]?js$/.test(file));
  const named = others.filter((file) => stemOf(file) === stemOf(source));
  const roots = rootsOf(source, baseDir);
  const mapped = [...named, ...others].find((file) => isMapped(file, source, roots));
  return mapped ?? compiledByName(source, named, baseDir);
}

function compiledByName(source: string, loaded: Iterable<string>, baseDir: string): string | undefined {
  if (!/\.[cm]?tsx?$/.test(source)) return undefined;
  const roots = rootsOf(source, baseDir);
  return [...loaded].find(
    (file) =>
      file !== source &&
      /\.[cm]?js$/.test(file) &&
      stemOf(file) === stemOf(source) &&
      roots.some((root) => isBuildOf(segmentsOf(source, root), segmentsOf(file, root))),
  );
}

function rootsOf(source: string, baseDir: string): string[] {
  return [baseDir, nearestManifest(dirname(source))?.folder ?? baseDir];
}

function isMapped(file: string, source: string, roots: readonly string[]): boolean {
  try {
    const text = readFileSync(file, 'utf8');
    const map = readMap(file, text, [basename(source)]);
    return map !== undefined && !isProblem(map) && sourcesAt(map, source, roots, text).length > 0;
  } catch {
    // The file cannot be read: decide by its name.
    return false;
  }
}

/** Within one package: `dist/a/orders` of `src/a/orders`, `dist/src/orders` of `src/orders`, `src/orders` of the same. */
function isBuildOf(source: readonly string[], built: readonly string[]): boolean {
  let end = 0;
  while (end < Math.min(source.length, built.length) && source.at(-1 - end) === built.at(-1 - end)) end++;
  return end > 0 && source.length - end <= 1 && built.length - end <= 1;
}

function segmentsOf(file: string, root: string): string[] {
  return [...relative(root, file).split(sep).slice(0, -1), stemOf(file)];
}

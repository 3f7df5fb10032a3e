import { readFileSync, statSync } from 'node:fs';
import { basename, dirname, extname, relative, resolve, sep } from 'node:path';
import { nearestManifest } from '../ground/files/manifest.ts';

/** Of a bundle of thousands of files; larger ones are not read for a message. */
const largestMapBytes = 33_554_432;

/**
 * Which of the files that were loaded was made from `source`: its source map says so, or its name does. Names count for
 * TypeScript alone: two files of JavaScript may be called alike.
 */
export function compiledFrom(source: string, loaded: Iterable<string>, baseDir: string): string | undefined {
  const others = [...loaded].filter((file) => file !== source && /\.[cm]?js$/.test(file));
  const named = others.filter((file) => stemOf(file) === stemOf(source));
  const mapped = [...named, ...others].find((file) => sourcesOf(file).includes(source));
  if (mapped !== undefined || !/\.[cm]?tsx?$/.test(source)) return mapped;
  const roots = [baseDir, nearestManifest(dirname(source))?.folder ?? baseDir];
  return named.find((file) =>
    roots.some((root) => isBuildOf(segmentsOf(source, root), segmentsOf(file, root))),
  );
}

/** What files of this name are called without their extension. */
export const stemOf = (file: string): string => basename(file, extname(file));

function sourcesOf(file: string): string[] {
  const map = `${file}.map`;
  try {
    if (statSync(map).size > largestMapBytes) return [];
    const { sources, sourceRoot = '' } = JSON.parse(readFileSync(map, 'utf8')) as {
      sources: string[];
      sourceRoot?: string;
    };
    return sources.map((each) => resolve(dirname(map), sourceRoot, each));
  } catch {
    // None, or none that can be read: the name has to tell.
    return [];
  }
}

/** In one package `dist/a/orders` of `src/a/orders`, `dist/src/orders` of `src/orders`, `src/orders` of the same. */
function isBuildOf(source: readonly string[], built: readonly string[]): boolean {
  let end = 0;
  while (end < Math.min(source.length, built.length) && source.at(-1 - end) === built.at(-1 - end)) end++;
  return end > 0 && source.length - end <= 1 && built.length - end <= 1;
}

function segmentsOf(file: string, root: string): string[] {
  return [...relative(root, file).split(sep).slice(0, -1), stemOf(file)];
}

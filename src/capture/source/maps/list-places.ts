import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Insertion } from '../insert-calls.ts';
import { findAll, type SourceEvents, type SourceTarget } from '../rewrite-text.ts';
import type { TargetFiles } from '../target-files.ts';
import { hashOf, type ListedFile, type ListedTarget, type PlaceList } from './listed-places.ts';
import { findMapped } from './rewrite-mapped.ts';

/**
 * Where the targets are: in the files that they name, and in built files. What `svc manifest` writes.
 *
 * @param built absolute
 * @param searched absolute; the files and folders that `built` are all of
 */
export function listPlaces(
  sought: TargetFiles,
  built: readonly string[],
  searched: readonly string[],
  baseDir: string,
  events: SourceEvents,
): PlaceList {
  const files: Record<string, ListedFile> = {};
  const shortOf = (file: string) => relative(baseDir, file).replaceAll('\\', '/');
  const list = (
    file: string,
    text: string,
    insertions: readonly Insertion[],
    own: readonly SourceTarget[],
  ) => {
    if (insertions.length === 0) return;
    const all = [...sought.values()].flat();
    const targets = insertions.map(({ id, found: { place, parameterNames, defaulted } }): ListedTarget => {
      const functionPath = all.find((each) => each.id === id)?.functionPath ?? '';
      const isBuilt = !own.some((each) => each.id === id);
      return { id, functionPath, place, parameterNames, defaulted, isBuilt };
    });
    files[shortOf(file)] = { hash: hashOf(text), targets };
  };
  // Types are taken away by whatever loads it, so that its text is another one there.
  const plain = [...sought.keys()].filter((file) => /\.[cm]?js$/.test(file) && existsSync(file));
  for (const file of new Set([...built, ...plain])) {
    const text = readFileSync(file, 'utf8');
    const kind = { goal: file.endsWith('.mjs') ? 'module' : 'unknown', typed: false } as const;
    const targets = sought.get(file) ?? [];
    const found = targets.length === 0 ? [] : findAll(file, text, kind, targets, events);
    const mapped = built.includes(file) ? findMapped(file, text, kind, sought, baseDir, events) : [];
    list(file, text, [...found, ...mapped], targets);
  }
  const own = [...sought.keys()].filter((file) => files[shortOf(file)] !== undefined);
  return { version: 1, searched: [...searched, ...own].map(shortOf), files };
}

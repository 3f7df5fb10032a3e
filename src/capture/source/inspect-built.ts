import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Insertion } from './insert-calls.ts';
import { hashOf, type PlaceList } from './listed-places.ts';
import { findMapped } from './rewrite-mapped.ts';
import { findAll, type SourceEvents, type SourceTarget } from './rewrite-text.ts';
import { locate, missingFile, shownPath, type TargetFiles } from './target-files.ts';

interface InBuilt {
  readonly isFound: boolean;
  /** Where it is, or why not; several are joined in a line. */
  readonly remark: string;
}

/** Looks the targets up in built files by their source maps, without loading any. Keyed by target id, if found. */
export function inspectBuilt(
  files: Iterable<string>,
  targets: readonly { readonly id: string; readonly module: string; readonly function: string }[],
  baseDir: string,
): Map<string, InBuilt> {
  const pending = new Map<string, SourceTarget[]>();
  for (const { id, module, function: functionPath } of targets) {
    const located = locate(module, baseDir);
    const missing = missingFile(module, baseDir);
    const paths = 'paths' in located ? located.paths : missing === undefined ? [] : [missing];
    for (const path of paths) pending.set(path, [...(pending.get(path) ?? []), { id, functionPath }]);
  }
  const found = new Map<string, InBuilt>();
  const say = (id: string, isFound: boolean, remark: string) => {
    const before = found.get(id);
    if (before === undefined || (isFound && !before.isFound)) found.set(id, { isFound, remark });
    else if (before.isFound === isFound && !before.remark.includes(remark))
      found.set(id, { isFound, remark: `${before.remark}; ${remark}` });
  };
  for (const file of files) {
    if (!/\.[cm]?js$/.test(file)) continue;
    const shown = shownPath(file, baseDir);
    const goal = file.endsWith('.mjs') ? 'module' : 'unknown';
    findMapped(file, readFileSync(file, 'utf8'), { goal, typed: false }, pending, baseDir, {
      found(id, _, __, built) {
        say(id, true, ['in', shown, built?.remark ?? ''].join(' ').trimEnd());
        return false;
      },
      problem: (id, reason) => say(id, false, `${reason} (${shown})`),
      unreadMap(_, reason) {
        for (const list of pending.values())
          for (const { id } of list) say(id, false, `the source map of ${shown} is not used: ${reason}`);
      },
    });
  }
  return found;
}

/**
 * Where the targets are: in the files that they name, and in built files. `svc manifest` writes it.
 *
 * @param built absolute
 * @param searched absolute; the files and folders from which `built` was listed
 */
export function listPlaces(
  pending: TargetFiles,
  built: readonly string[],
  searched: readonly string[],
  baseDir: string,
  events: SourceEvents,
): PlaceList {
  const files: Record<string, PlaceList['files'][string]> = {};
  const shortOf = (file: string) => relative(baseDir, file).replaceAll('\\', '/');
  const list = (
    file: string,
    text: string,
    insertions: readonly Insertion[],
    own: readonly SourceTarget[],
  ) => {
    if (insertions.length === 0) return;
    const all = [...pending.values()].flat();
    const targets = insertions.map(({ id, found: { place, parameterNames, defaulted } }) => {
      const functionPath = all.find((each) => each.id === id)?.functionPath ?? '';
      const isBuilt = !own.some((each) => each.id === id);
      return { id, functionPath, place, parameterNames, defaulted, isBuilt };
    });
    files[shortOf(file)] = { hash: hashOf(text), targets };
  };
  // JavaScript only: types are stripped on load, which changes the text.
  const plain = [...pending.keys()].filter((file) => /\.[cm]?js$/.test(file) && existsSync(file));
  for (const file of new Set([...built, ...plain])) {
    const text = readFileSync(file, 'utf8');
    const kind = { goal: file.endsWith('.mjs') ? 'module' : 'unknown', typed: false } as const;
    const targets = pending.get(file) ?? [];
    const found = targets.length === 0 ? [] : findAll(file, text, kind, targets, events);
    const mapped = built.includes(file) ? findMapped(file, text, kind, pending, baseDir, events) : [];
    list(file, text, [...found, ...mapped], targets);
  }
  const own = [...pending.keys()].filter((file) => files[shortOf(file)] !== undefined);
  return { version: 1, searched: [...searched, ...own].map(shortOf), files };
}

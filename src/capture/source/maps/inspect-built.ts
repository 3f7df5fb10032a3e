import { readFileSync } from 'node:fs';
import { locate, missingFile } from '../locate.ts';
import { shownPath } from '../own-file.ts';
import type { SourceTarget } from '../rewrite-text.ts';
import { findMapped } from './rewrite-mapped.ts';

/** What reading the source maps of built files says about a target. */
export interface InBuilt {
  readonly isFound: boolean;
  /** Where, or why not; several are in a line. */
  readonly remark: string;
}

/** Looks the targets up in built files by their source maps, without loading any. By the targets' ids; what no map names is not there. */
export function inspectBuilt(
  files: Iterable<string>,
  targets: readonly { readonly id: string; readonly module: string; readonly function: string }[],
  baseDir: string,
): Map<string, InBuilt> {
  const sought = new Map<string, SourceTarget[]>();
  for (const { id, module, function: functionPath } of targets) {
    const located = locate(module, baseDir);
    const missing = missingFile(module, baseDir);
    const paths = 'paths' in located ? located.paths : missing === undefined ? [] : [missing];
    for (const path of paths) sought.set(path, [...(sought.get(path) ?? []), { id, functionPath }]);
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
    findMapped(file, readFileSync(file, 'utf8'), { goal, typed: false }, sought, baseDir, {
      found(id, _, __, built) {
        say(id, true, ['in', shown, built?.remark ?? ''].join(' ').trimEnd());
        return false;
      },
      problem: (id, reason) => say(id, false, `${reason} (${shown})`),
      unreadMap(_, reason) {
        for (const list of sought.values())
          for (const { id } of list) say(id, false, `the source map of ${shown} is not used: ${reason}`);
      },
    });
  }
  return found;
}

import { findPaths } from './find/find.ts';
import { type Insertion, insert, isMarked } from './insert-calls.ts';
import type { TextKind } from './parse-text.ts';
import { type Found, isProblem, type Problem } from './wrapper-place.ts';

/** One function to find in a file. Crosses to the loader thread: plain data. */
export interface SourceTarget {
  readonly id: string;
  readonly functionPath: string;
}

/** The file that a target was looked for in by its source map. */
export interface BuiltFile {
  readonly file: string;
  /** What else to know about the target there. */
  readonly remark?: string | undefined;
  /** Nothing of it is there; another file may have it. */
  readonly isDropped?: boolean;
}

/** Told about each target of a file when its text is read. None throws. */
export interface SourceEvents {
  /** The function is there; false keeps its text as it is. `defaulted`: positions of the parameters with a default. */
  found(
    id: string,
    parameterNames: readonly string[] | undefined,
    defaulted: readonly number[] | undefined,
    built?: BuiltFile,
  ): boolean;
  problem(id: string, reason: string, built?: BuiltFile): void;
  /** The source map of a file cannot be used. */
  unreadMap?(file: string, reason: string): void;
  /** The list of `svc manifest` was made of another text of this file. */
  unlisted?(file: string): void;
}

/** The text with the targets' calls inserted; the text itself when there is nothing to insert, whatever the reason. `more`: what else is. */
export function rewrite(
  file: string,
  text: string,
  kind: TextKind,
  targets: readonly SourceTarget[],
  events: SourceEvents,
  more: () => Insertion[] = () => [],
): string {
  try {
    if (isMarked(text)) return text;
    const own = targets.length === 0 ? [] : findAll(file, text, kind, targets, events);
    const insertions = [...own, ...more()];
    return insertions.length === 0 ? text : insert(text, insertions, file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown error';
    for (const { id } of targets) events.problem(id, `the file could not be read by svc: ${reason}`);
    return text;
  }
}

/** Looks every target up, without changing anything. */
export function findAll(
  file: string,
  text: string,
  kind: TextKind,
  targets: readonly SourceTarget[],
  events: SourceEvents,
): Insertion[] {
  const all = findPaths(
    file,
    text,
    kind,
    targets.map(({ functionPath }) => functionPath),
  );
  return targets.flatMap(({ id }, index) => {
    const found = isProblem(all) ? all : (all.found[index] as Found | Problem);
    if (!isProblem(found))
      return events.found(id, found.parameterNames, found.defaulted) ? [{ id, found }] : [];
    events.problem(id, found.problem);
    return [];
  });
}

import { type FoundPaths, findPaths } from './find.ts';
import { type Insertion, insert, isMarked } from './insert-calls.ts';
import type { TextKind } from './parse-text.ts';
import { type Found, isProblem, type Place, type Problem } from './wrapper-place.ts';

/** One function to find in a file. Crosses to the loader thread: plain data. */
export interface SourceTarget {
  readonly id: string;
  /** Empty where only the exports of a package's file are looked at. */
  readonly functionPath: string;
  /** Of a package: what its CommonJS file exports the function as, where the text does not show it. */
  readonly exported?: readonly string[] | undefined;
  /** Of a package: what leads to the function when its ES module has run, where the text does not show it. */
  readonly late?: LatePath | undefined;
}

export interface LatePath {
  /** A name in the module's scope, and the path behind it. */
  readonly binding: string;
  readonly path: readonly string[];
  readonly isAssignable: boolean;
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
  /** In place of `found`, where only running the module tells: the text does not show it, for this reason. */
  unseen?(id: string, reason: string): boolean;
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
    const inText = targets.filter(
      ({ functionPath, exported }) => functionPath !== '' || exported === undefined,
    );
    const own = inText.length === 0 ? [] : findAll(file, text, kind, inText, events);
    const insertions = [...own, ...more()];
    return insertions.length === 0 ? text : insert(text, insertions, file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown error';
    for (const { id } of targets) events.problem(id, `svc could not read the file: ${reason}`);
    return text;
  }
}

/**
 * Where a function is replaced when its file has run; `undefined` where that is too late: what has another name by then, or a class that
 * extends it, would stay what it was there, and not be the same any more.
 */
function latePlace(
  { binding, path, isAssignable }: LatePath,
  text: string,
  { program, end }: FoundPaths,
): Place | undefined {
  if (end === undefined) return undefined;
  const place = { form: 'late', at: end, name: binding, path } as const;
  if (path.length > 0) return place;
  const name = binding.replaceAll('$', '\\$');
  const isHeld = `(?:=|\\bextends)\\s*${name}\\s*(?:[;,){\\n]|$)`;
  const isOther = `\\b(?:let|var)\\s+${name}\\s*=\\s*[\\w$.]+\\s*[;,\\n]`;
  if (!isAssignable || new RegExp(`${isHeld}|${isOther}`).test(text)) return undefined;
  if (!new RegExp(`\\bexport\\s+default\\s+${name}(?![\\w$])`).test(text)) return place;
  // `export default Stripe` is the value of that moment: where the name never gets another one, it can be exported as default itself.
  const standard = program.body.find(({ type }) => type === 'ExportDefaultDeclaration');
  const [before] = /^export\s+(?=default\s+[\w$])/.exec(text.slice(standard?.start ?? text.length)) ?? [];
  const assigned = `\\b${name}\\s*[-+*/%&|^?<>]*=(?![=>])`;
  const isChanged = `(?<!^(?:let |var )?)${assigned}`;
  if (standard === undefined || before === undefined || new RegExp(isChanged, 'm').test(text))
    return undefined;
  const isChangedLater = new RegExp(assigned).test(text.slice(standard.end));
  return isChangedLater ? undefined : { ...place, standardAt: standard.start + before.length };
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
  return targets.flatMap(({ id, late }, index) => {
    const found = isProblem(all) ? all : (all.found[index] as Found | Problem);
    if (!isProblem(found))
      return events.found(id, found.parameterNames, found.defaulted) ? [{ id, found }] : [];
    const place = late === undefined || isProblem(all) ? undefined : latePlace(late, text, all);
    if (place === undefined) {
      events.problem(id, found.problem);
      return [];
    }
    const isTaken = events.unseen?.(id, found.problem) ?? events.found(id, undefined, undefined);
    return isTaken ? [{ id, found: { place, parameterNames: undefined } }] : [];
  });
}

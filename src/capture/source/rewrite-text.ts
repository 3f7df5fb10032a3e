import { findPaths } from './find.ts';
import { type Insertion, insert, isMarked } from './insert-calls.ts';
import type { TextKind } from './parse-text.ts';
import { type Found, isProblem, messageOf, type Place, type Problem } from './wrapper-place.ts';

/** One function to find in a file. Plain data: it is sent to the loader thread. */
export interface SourceTarget {
  readonly id: string;
  /** Empty if only the exports of a package's file are examined. */
  readonly functionPath: string;
  /** The export path in a package's CommonJS file, if the text does not show the function. */
  readonly exported?: readonly string[] | undefined;
  /** The path to the function in a package's ES module after it has run, if the text does not show it. */
  readonly late?: LatePath | undefined;
}

interface LatePath {
  /** A name in the module's scope, and the path below it. */
  readonly binding: string;
  readonly path: readonly string[];
  readonly isAssignable: boolean;
}

export interface BuiltFile {
  readonly file: string;
  readonly remark?: string | undefined;
  /** The build dropped the function; another file may contain it. */
  readonly isDropped?: boolean;
}

/** Called for each target of a file when its text is read. None throws. */
export interface SourceEvents {
  /** The text shows the function; return false to keep it unchanged. `defaulted`: positions of the parameters with a default. */
  found(
    id: string,
    parameterNames: readonly string[] | undefined,
    defaulted: readonly number[] | undefined,
    built?: BuiltFile,
  ): boolean;
  problem(id: string, reason: string, built?: BuiltFile): void;
  /** Instead of `found`, if only running the module shows the function; with the reason. */
  unseen?(id: string, reason: string): boolean;
  unreadMap?(file: string, reason: string): void;
  /** The list of `svc manifest` describes another text of this file. */
  unlisted?(file: string): void;
}

/** Inserts the targets' calls; returns the text itself if there is nothing to insert. `more`: further insertions. */
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
    const reason = messageOf(error);
    for (const { id } of targets) events.problem(id, `svc could not read the file: ${reason}`);
    return text;
  }
}

/** Where a function can be replaced after its file has run. `undefined` if other names or subclasses would keep the original. */
function latePlace(
  { binding, path, isAssignable }: LatePath,
  text: string,
  { program, end }: Exclude<ReturnType<typeof findPaths>, Problem>,
): Place | undefined {
  if (end === undefined) return undefined;
  const place = { form: 'late', at: end, name: binding, path } as const;
  if (path.length > 0) return place;
  const name = binding.replaceAll('$', '\\$');
  const isHeld = `(?:=|\\bextends)\\s*${name}\\s*(?:[;,){\\n]|$)`;
  const isOther = `\\b(?:let|var)\\s+${name}\\s*=\\s*[\\w$.]+\\s*[;,\\n]`;
  if (!isAssignable || new RegExp(`${isHeld}|${isOther}`).test(text)) return undefined;
  if (!new RegExp(`\\bexport\\s+default\\s+${name}(?![\\w$])`).test(text)) return place;
  // `export default Stripe` exports the current value. A name that is never reassigned can itself be exported as default.
  const standard = program.body.find(({ type }) => type === 'ExportDefaultDeclaration');
  const [before] = /^export\s+(?=default\s+[\w$])/.exec(text.slice(standard?.start ?? text.length)) ?? [];
  const assigned = `\\b${name}\\s*[-+*/%&|^?<>]*=(?![=>])`;
  const isChanged = `(?<!^(?:let |var )?)${assigned}`;
  if (standard === undefined || before === undefined || new RegExp(isChanged, 'm').test(text))
    return undefined;
  const isChangedLater = new RegExp(assigned).test(text.slice(standard.end));
  return isChangedLater ? undefined : { ...place, standardAt: standard.start + before.length };
}

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

/** What a statement means for the transaction it is called in. The database tells the rest by its status. */
export type StatementKind =
  | { readonly is: 'begin' | 'commit' | 'rollback' | 'read' | 'write' }
  | { readonly is: 'savepoint' | 'release' | 'rollback to'; readonly name: string };

const read: StatementKind = { is: 'read' };
const write: StatementKind = { is: 'write' };
const begin: StatementKind = { is: 'begin' };
const commit: StatementKind = { is: 'commit' };
const rollback: StatementKind = { is: 'rollback' };

const blank = /(?:\s+|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/y;
const name = '((?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|[\\w$]+))';
const control = new RegExp(
  [
    '(?<begin>begin|start\\s+transaction)\\b',
    '(?<commit>commit|end)\\b(?!\\s+prepared\\b)',
    `rollback(?:\\s+(?:work|transaction))?\\s+to(?:\\s+savepoint)?\\s+(?<back>${name})`,
    '(?<rollback>rollback|abort)\\b(?!\\s+prepared\\b)',
    '(?<prepare>prepare\\s+transaction|xa\\s)\\b',
    `savepoint\\s+(?<savepoint>${name})`,
    `release(?:\\s+savepoint)?\\s+(?<release>${name})`,
    '(?<read>select|show|values|explain|set|describe|table|pragma|use)\\b',
  ].join('|'),
  'iy',
);

/**
 * Of one text, which may hold several statements: the one that matters most is told, and that is COMMIT, which must be known
 * before it is sent.
 */
export function kindOf(text: string): StatementKind {
  const first = kindAt(text, 0);
  const end = text.indexOf(';');
  if (end < 0 || isBlank(text, end + 1)) return first;
  const all = statementStarts(text).map((at) => kindAt(text, at));
  return (
    all.find(({ is }) => is === 'commit') ??
    all.find(({ is }) => is === 'begin') ??
    all.find(({ is }) => is === 'rollback') ??
    all.find(({ is }) => is !== 'read') ??
    first
  );
}

function kindAt(text: string, at: number): StatementKind {
  control.lastIndex = afterBlank(text, at);
  const groups = control.exec(text)?.groups;
  if (groups === undefined) return write;
  if (groups.read !== undefined) return read;
  if (groups.begin !== undefined) return begin;
  if (groups.commit !== undefined || groups.prepare !== undefined) return commit;
  if (groups.rollback !== undefined) return rollback;
  if (groups.savepoint !== undefined) return { is: 'savepoint', name: plain(groups.savepoint) };
  if (groups.release !== undefined) return { is: 'release', name: plain(groups.release) };
  return { is: 'rollback to', name: plain(groups.back ?? '') };
}

/** Unquoted names are the same in any case. */
function plain(given: string): string {
  return /^["`]/.test(given) ? given.slice(1, -1) : given.toLowerCase();
}

function afterBlank(text: string, at: number): number {
  blank.lastIndex = at;
  blank.exec(text);
  return blank.lastIndex;
}

function isBlank(text: string, from: number): boolean {
  return /^[\s;]*$/.test(text.slice(from));
}

const opaque =
  /'(?:[^'\\]|''|\\[\s\S])*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\$(\w*)\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;/g;

/** Where statements begin, semicolons within texts, names and comments apart. */
function statementStarts(text: string): number[] {
  const starts = [0];
  for (const { 0: found, index } of text.matchAll(opaque)) if (found === ';') starts.push(index + 1);
  return starts.filter((at) => !isBlank(text, at));
}

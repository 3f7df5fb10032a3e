import { type Dialect, dialects } from './dialect.ts';
import { isPure } from './pure-functions.ts';
import { bareText, quotedName, statementsOf } from './statement-text.ts';
import { addWritingView, namesWritingView, writingViewsVersion } from './writing-views.ts';

/** What a statement means for the transaction it is called in. The database tells the rest by its status. */
export type StatementKind = {
  /** Of a text of several statements: all of them. */
  readonly all?: readonly StatementKind[];
} & (
  | { readonly is: 'begin' | 'commit' | 'rollback' | 'read' | 'write' }
  | { readonly is: 'savepoint' | 'release' | 'rollback to'; readonly name: string }
  /** MySQL commits before it runs such a statement, or not: it depends on what is there. */
  | { readonly is: 'implicit commit' }
  /** What follows is decided elsewhere, and may be a commit: PREPARE TRANSACTION, XA END, XA PREPARE. */
  | { readonly is: 'prepare' }
);

const read: StatementKind = { is: 'read' };
const write: StatementKind = { is: 'write' };
const begin: StatementKind = { is: 'begin' };
const commit: StatementKind = { is: 'commit' };
const prepare: StatementKind = { is: 'prepare' };
const implicit: StatementKind = { is: 'implicit commit' };
const rollback: StatementKind = { is: 'rollback' };

/** What is none of these may have a comment between its words. */
const changing = /^\s*(?:select|insert|update|delete|replace|merge|with|values)\b/i;
/** Quoted ones have a limit, longer than those of the databases: of a repeated group V8 keeps each round. */
const name =
  '((?:u&)?"(?:[^"]|""){0,300}"|`(?:[^`]|``){0,300}`|\'(?:[^\']|\'\'){0,300}\'|\\[[^\\]]*\\]|[\\w$\\u0080-\\uffff]+)';
const reading =
  'select|show|values|explain|set|describe|desc|table|pragma|use|fetch|declare|close|move|listen|unlisten|discard|reset|deallocate|prepare';
const words = [
  '(?<begin>begin(?!\\s+not\\s+atomic\\b)|start\\s+transaction)\\b',
  '(?<commit>commit|end)\\b(?!\\s+prepared\\b)',
  `rollback(?:\\s+(?:work|transaction))?\\s+to\\b(?:\\s*savepoint\\b)?\\s*(?<back>${name})?`,
  '(?<rollback>rollback|abort)\\b(?!\\s+prepared\\b)',
  '(?<prepare>prepare\\s+transaction)\\b',
  `savepoint\\b\\s*(?<savepoint>${name})`,
  `release\\b(?:\\s*savepoint\\b)?\\s*(?<release>${name})`,
  `[(\\s]*(?<read>${reading})\\b`,
  '(?<with>with)\\b',
];
const control = new RegExp(`^(?:${words.join('|')})`, 'i');

/** The chapter "Statements That Cause an Implicit Commit" of MySQL's manual, and the transactions of XA. */
const mysqlWords = [
  '(?<begin>xa\\s+(?:start|begin))\\b',
  '(?<rollback>xa\\s+rollback)\\b',
  '(?<read>xa\\s+recover)\\b',
  '(?<prepare>xa\\s+(?:end|prepare))\\b',
  '(?<commit>xa\\s+commit)\\b',
  `(?<implicit>${[
    '(?:create|drop)(?!\\s+(?:or\\s+replace\\s+)?(?:temporary(?!\\s+sequence)|prepare)\\b)',
    'alter|rename|truncate|grant|revoke|install|uninstall|flush|reset|stop|change',
    '(?:un)?lock\\s+(?:tables?|instance)',
    '(?:analyze|optimize|repair|check)\\s+(?:no_write_to_binlog\\s+|local\\s+)?(?:tables?|view)',
    '(?:cache|load)\\s+index',
    'start\\s+(?:slave|replica|group_replication)',
    'set\\s+(?:password|default\\s+role)',
    'backup|import\\s+table',
    // Compound statements, which are no procedure.
    '(?:begin\\s+not\\s+atomic|if|case|for|loop|repeat|while)\\b[\\s\\S]*?\\bcommit',
    // Any value but that which switches it off: it may be that of a variable.
    'set\\b[^;]*?\\bautocommit[\\s`]*:?=\\s*(?!\\s|[\'"]?(?:0|off|false)\\b)[^\\w;]*\\w+',
  ].join('|')})\\b`,
  '(?<write>end)\\b',
];
/** What stands before another statement: SET STATEMENT max_statement_time = 1 FOR, EXECUTE IMMEDIATE '. */
const mysqlPrefix = /^(?:set\s+statement\b[\s\S]*?\bfor\s+|execute\s+immediate\s+['"]\s*)/i;
const mysqlControl = new RegExp(`^(?:${mysqlWords.join('|')})`, 'i');

const longestKept = 500;
const mostKept = 1_000;
/** Applications send the same texts again and again. */
const kept: Readonly<Record<Dialect, Map<string, StatementKind>>> = {
  postgres: new Map(),
  mysql: new Map(),
  sqlite: new Map(),
};
let keptVersion = writingViewsVersion();

/**
 * Of one text, which may hold several statements: the one that matters most is told, and that is COMMIT, which must be known
 * before it is sent. Takes as long as the text is; never throws: what cannot be read is a write.
 */
export function kindOf(text: string, dialect: Dialect): StatementKind {
  if (text.length > longestKept) return readKind(text, dialect);
  if (keptVersion !== writingViewsVersion()) {
    keptVersion = writingViewsVersion();
    for (const each of dialects) kept[each].clear();
  }
  const kinds = kept[dialect];
  const known = kinds.get(text);
  if (known !== undefined) return known;
  const kind = readKind(text, dialect);
  // Texts with values in them are never the same.
  if (kinds.size >= mostKept) kinds.clear();
  kinds.set(text, kind);
  return kind;
}

function readKind(text: string, dialect: Dialect): StatementKind {
  try {
    return readWhole(text, dialect);
  } catch {
    return write;
  }
}

function readWhole(text: string, dialect: Dialect): StatementKind {
  const end = text.indexOf(';');
  const isOne = end < 0 || isBlank(text, end + 1);
  if (isOne && (changing.test(text) || !/--|#|\/\*/.test(text))) return kindAt(text.trimStart(), dialect);
  const all = statementsOf(text, dialect).map((statement) => kindAt(statement, dialect));
  if (all.length < 2) return all[0] ?? write;
  const told = ['commit', 'prepare', 'implicit commit', 'begin', 'rollback', 'write']
    .map((is) => all.find((one) => one.is === is))
    .find((found) => found !== undefined);
  const other = all.find(({ is }) => is !== 'read') ?? (all[0] as StatementKind);
  return { ...(told ?? other), all };
}

function kindAt(given: string, dialect: Dialect): StatementKind {
  const statement = dialect === 'mysql' ? given.replace(mysqlPrefix, '') : given;
  if (dialect !== 'sqlite' && making.test(statement)) learnView(statement, dialect);
  const found =
    (dialect === 'mysql' ? mysqlControl.exec(statement)?.groups : undefined) ??
    control.exec(statement)?.groups;
  if (found === undefined || found.write !== undefined) return write;
  if (found.read !== undefined) return readsOnly(statement, found.read.toLowerCase(), dialect) ? read : write;
  if (found.with !== undefined)
    return /\b(?:insert|update|delete|merge)\b/i.test(statement) || mayWrite(statement, dialect)
      ? write
      : read;
  if (found.begin !== undefined) return begin;
  if (found.commit !== undefined) return commit;
  if (found.prepare !== undefined) return prepare;
  if (found.implicit !== undefined) return implicit;
  if (found.rollback !== undefined) return rollback;
  if (found.savepoint !== undefined) return { is: 'savepoint', name: plain(found.savepoint, dialect) };
  if (found.release !== undefined) return { is: 'release', name: plain(found.release, dialect) };
  return { is: 'rollback to', name: plain(found.back ?? '', dialect) };
}

/** Of what looks like a query: a function of the database may write, and EXPLAIN ANALYZE runs what it explains. */
function readsOnly(statement: string, word: string, dialect: Dialect): boolean {
  if (word === 'explain') {
    const rest = explained(statement);
    return rest === undefined || kindAt(rest, dialect).is === 'read';
  }
  if (!mayCall.has(word)) return true;
  // SELECT … INTO makes a table.
  if (dialect === 'postgres' && /\binto\b/i.test(statement) && /\binto\b/i.test(bareText(statement, dialect)))
    return false;
  return !mayWrite(statement, dialect);
}

const mayCall: ReadonlySet<string> = new Set(['select', 'values', 'table', 'set', 'declare']);

/** What EXPLAIN ANALYZE runs; `undefined` where it runs nothing. */
function explained(statement: string): string | undefined {
  const [options = ''] =
    /^explain\s*(?:\([^)]*\)|(?:(?:analyze|verbose|extended|partitions|format\s*=\s*\w+)\b\s*)*)/i.exec(
      statement,
    ) ?? [];
  const isRun = /\banalyze\b(?!\s*(?:=\s*)?['"]?(?:false|off|0|no)\b)/i.test(options);
  return isRun ? statement.slice(options.length).trimStart() : undefined;
}

/** The columns that a query in WITH gives itself look like arguments. */
const namedColumns =
  /(?:\bwith\s+(?:recursive\s+)?|,\s*)[\w$\u0080-\uffff]+\s*\([\w\s,$\u0080-\uffff]*\)\s*as\b/gi;
/** A name before a parenthesis, with what may stand before the name: a dot, a cast, the end of a table that it is the alias of, AS. */
const called = /(\.|::|\)|\bas\b)?\s*([\w$\u0080-\uffff]+)\s*\(/gi;
const ownSchema = /\bpg_catalog\s*$/i;

/** Whether it calls a function that is none of those of the database which write nothing. SQLite's own functions never do. */
function calls(statement: string, dialect: Dialect): boolean {
  if (dialect === 'sqlite' || !statement.includes('(')) return false;
  const bare = bareText(statement, dialect).replace(namedColumns, ' as');
  for (const { 1: before, 2: name = '', index } of bare.matchAll(called)) {
    if (before === '.') {
      if (!ownSchema.test(bare.slice(0, index))) return true;
    } else if (before !== undefined) continue;
    if (name.includes(quotedName) || !isPure(name.toLowerCase(), dialect)) return true;
  }
  return false;
}

function mayWrite(statement: string, dialect: Dialect): boolean {
  return calls(statement, dialect) || namesWritingView(statement, dialect);
}

/** Whether what a view is made of calls such a function. */
export function definitionMayWrite(definition: string, dialect: Dialect): boolean {
  return calls(definition, dialect);
}

const making = /^(?:create|alter)\b(?!\s+materialized\b)[^;]*?\b(?:view|policy|rule)\b/i;
const schemaAndName = `(?:(?:${name})\\s*\\.\\s*)?(?<name>${name})`;
/** A view and its query; a policy, or a rule of a SELECT, and its table. */
const made = [
  new RegExp(
    `\\bview\\s+(?:if\\s+not\\s+exists\\s+)?${schemaAndName}[\\s\\S]*?\\bas\\b(?<query>[\\s\\S]*)`,
    'i',
  ),
  new RegExp(`\\bpolicy\\b[\\s\\S]*?\\bon\\s+${schemaAndName}(?<query>[\\s\\S]*)`, 'i'),
  new RegExp(`\\brule\\b[\\s\\S]*?\\bon\\s+select\\s+to\\s+${schemaAndName}(?<query>[\\s\\S]*)`, 'i'),
];

function learnView(statement: string, dialect: Dialect): void {
  for (const pattern of made) {
    const { name: found, query } = pattern.exec(statement)?.groups ?? {};
    if (found === undefined || query === undefined) continue;
    if (mayWrite(query, dialect)) addWritingView(dialect, plain(found, dialect));
    return;
  }
}

/** Only PostgreSQL knows a quoted name by its case. */
function plain(given: string, dialect: Dialect): string {
  const name = /^["`'[]/.test(given) ? given.slice(1, -1) : given;
  return name !== given && dialect === 'postgres' ? name : name.toLowerCase();
}

function isBlank(text: string, from: number): boolean {
  return /^[\s;]*$/.test(text.slice(from));
}

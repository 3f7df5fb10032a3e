import type { Dialect } from './dialect.ts';

const quoted = /"(?:[^"]|"")*"|`(?:[^`]|``)*`/.source;
const rest = /\/\*|;/.source;
/** Where words are none of a statement, and what ends one. */
const marks: Readonly<Record<Dialect, RegExp>> = {
  postgres: new RegExp(
    `\\b[eE]'(?:[^'\\\\]|''|\\\\[\\s\\S])*'|'(?:[^']|'')*'|(?<![\\w$\\u0080-\\uffff])\\$([\\w\\u0080-\\uffff]*)\\$[\\s\\S]*?\\$\\1\\$|--[^\\n\\r]*|${quoted}|${rest}`,
    'g',
  ),
  // Two dashes need a blank behind them, and what is in a comment of its own is run: /*!50000 COMMIT */.
  mysql: new RegExp(
    `'(?:[^'\\\\]|''|\\\\[\\s\\S])*'|"(?:[^"\\\\]|""|\\\\[\\s\\S])*"|#[^\\n]*|--(?=\\s|$)[^\\n]*|/\\*M?!\\d*|\\*/|${quoted}|${rest}`,
    'g',
  ),
  sqlite: new RegExp(`'(?:[^']|'')*'|--[^\\n]*|${quoted}|${rest}`, 'g'),
};
const edges = /\/\*|\*\//g;

/** The statements of a text, each without its comments. */
export function statementsOf(text: string, dialect: Dialect): string[] {
  const statements: string[] = [];
  const mark = marks[dialect];
  let statement = '';
  let from = 0;
  let isRun = false;
  const cut = (at: number, next: number): void => {
    statement += `${text.slice(from, at)} `;
    from = next;
    mark.lastIndex = next;
  };
  const end = (): void => {
    if (statement.trim() !== '') statements.push(statement.trimStart());
    statement = '';
  };
  mark.lastIndex = 0;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    const { 0: token, index } = found;
    const isEnd = token === ';';
    if (isEnd || /^(?:--|#)/.test(token)) cut(index, mark.lastIndex);
    else if (token === '/*') cut(index, commentEnd(text, index, dialect));
    else if (token.startsWith('/*') || (token === '*/' && isRun)) {
      isRun = !isRun;
      cut(index, mark.lastIndex);
    } else if (token === '*/') mark.lastIndex = index + 1;
    if (isEnd) end();
  }
  cut(text.length, text.length);
  end();
  return statements;
}

/** In PostgreSQL a comment can have others in it. */
function commentEnd(text: string, start: number, dialect: Dialect): number {
  if (dialect !== 'postgres') {
    const end = text.indexOf('*/', start + 2);
    return end < 0 ? text.length : end + 2;
  }
  edges.lastIndex = start;
  for (let depth = 0, found = edges.exec(text); found !== null; found = edges.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return edges.lastIndex;
  }
  return text.length;
}

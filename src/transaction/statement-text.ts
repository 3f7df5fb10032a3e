import type { Dialect } from './dialect.ts';

/**
 * Where a quoted part or a comment begins, and what ends a statement. No pattern takes more than one run of characters: V8 keeps a
 * place to come back to for each round of a repeated group, and throws a RangeError for a text of some megabytes.
 */
const marks: Readonly<Record<Dialect, RegExp>> = {
  postgres:
    /\b[eE]'|['"`;]|(?<![\w$\u0080-\uffff])\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|--[^\n\r]*|\/\*/g,
  // Two dashes need a blank behind them, and what is in a comment of its own is run: /*!50000 COMMIT */.
  mysql: /['"`;]|#[^\n]*|--(?=\s|$)[^\n]*|\/\*M?!\d*|\*\/|\/\*/g,
  sqlite: /['"`;]|--[^\n]*|\/\*/g,
};
/** Kinds of quotes, by the first character of their token. */
const quotes: Readonly<Record<string, string>> = { "'": "'", e: "'", E: "'", '"': '"', '`': '`', $: '$' };
const edges = /\/\*|\*\//g;

/** The statements of a text, each without its comments. */
export function statementsOf(text: string, dialect: Dialect): string[] {
  return partsOf(text, dialect, false);
}

/** Stands for a name in quotes: a character that no text has. */
export const quotedName = '\ufdd0';

/** A statement without comments and without what is in quotes. */
export function bareText(statement: string, dialect: Dialect): string {
  return partsOf(statement, dialect, true).join(' ');
}

function partsOf(text: string, dialect: Dialect, withoutQuotes: boolean): string[] {
  const statements: string[] = [];
  const mark = marks[dialect];
  /** Kinds of quotes that have no end: from there on they are characters like others, and nobody looks for their end again. */
  const open = new Set<string>();
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
    const quote = quotes[token.charAt(0)];
    if (quote !== undefined) {
      const end = open.has(quote) ? -1 : quotedEnd(text, mark.lastIndex, token, dialect);
      if (end < 0) open.add(quote);
      else if (withoutQuotes) {
        cut(index, end);
        if (quote === '"' || quote === '`') statement = `${statement.slice(0, -1)}${quotedName}`;
      } else mark.lastIndex = end;
      continue;
    }
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

/** Behind the end of what begins with this token; -1 where it has none. */
function quotedEnd(text: string, from: number, token: string, dialect: Dialect): number {
  if (token.startsWith('$')) {
    const end = text.indexOf(token, from);
    return end < 0 ? -1 : end + token.length;
  }
  const quote = token.slice(-1);
  const isEscaping = token.length > 1 || (dialect === 'mysql' && token !== '`');
  for (let at = from; ; ) {
    const end = text.indexOf(quote, at);
    if (end < 0) return -1;
    let before = end;
    while (isEscaping && before > at && text[before - 1] === '\\') before--;
    if ((end - before) % 2 === 1) at = end + 1;
    else if (text[end + 1] === quote) at = end + 2;
    else return end + 1;
  }
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

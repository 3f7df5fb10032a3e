/** `variable` is `#name`; `symbol` is also any character that the grammar does not know: the parser says why it is refused. */
export type TokenKind = 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'broken' | 'end';

export interface Token {
  readonly kind: TokenKind;
  /** The name without `#`, the content of a string, the digits of a number, the symbol; of `broken` the reason. */
  readonly text: string;
  /** Offset of the first character. */
  readonly at: number;
}

const space = /[\s\u200b\ufeff]+/uy;
const name = /[\p{ID_Start}$_][\p{ID_Continue}$]*/uy;
const number = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/uy;
/** As in SpEL: the quote itself is written twice, a backslash is an ordinary character. */
const string = /'((?:[^']|'')*)'(?!')|"((?:[^"]|"")*)"(?!")/uy;
const symbol = /===|!==|=>|\?\.|\?:|\?\?|&&|\|\||\*\*|\+\+|--|[=!<>+\-*/%]=|./suy;

export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  while (at < text.length) {
    const blank = match(space);
    if (blank !== null) {
      at += blank[0].length;
      continue;
    }
    const token = next(text, at, match);
    tokens.push(token.token);
    at += token.length;
  }
  tokens.push({ kind: 'end', text: '', at: text.length });
  return tokens;
}

function next(
  text: string,
  at: number,
  match: (pattern: RegExp) => RegExpExecArray | null,
): { token: Token; length: number } {
  const word = match(name)?.[0];
  if (word !== undefined) return { token: { kind: 'name', text: word, at }, length: word.length };
  const digits = match(number)?.[0];
  if (digits !== undefined) return { token: { kind: 'number', text: digits, at }, length: digits.length };
  if (text[at] === '#') {
    name.lastIndex = at + 1;
    const variable = name.exec(text)?.[0];
    return variable === undefined
      ? {
          token: {
            kind: 'broken',
            text: 'a name must follow "#", as in #result. There are no #{…} brackets around an expression.',
            at,
          },
          length: 1,
        }
      : { token: { kind: 'variable', text: variable, at }, length: variable.length + 1 };
  }
  if (text[at] === "'" || text[at] === '"') {
    const quoted = match(string);
    if (quoted === null) {
      return {
        token: { kind: 'broken', text: 'this string has no closing quote.', at },
        length: text.length - at,
      };
    }
    const content = quoted[1]?.replaceAll("''", "'") ?? quoted[2]?.replaceAll('""', '"') ?? '';
    return { token: { kind: 'string', text: content, at }, length: quoted[0].length };
  }
  const sign = match(symbol)?.[0] ?? text.charAt(at);
  return { token: { kind: 'symbol', text: sign, at }, length: sign.length };
}

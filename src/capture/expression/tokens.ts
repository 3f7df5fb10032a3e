import type { SvcError } from '../../ground/errors.ts';
import { maxDepth, maxNodes, refusal } from './failure.ts';
import type { Node } from './syntax-tree.ts';

/** `variable` is `#name`; `symbol` is also any character that the grammar does not know: the parser says why it is refused. */
type TokenKind = 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'broken' | 'end';

interface Token {
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

function tokenize(text: string): Token[] {
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

/** Walks over the tokens of one text, counts what the limits bound, and makes the errors. */
export interface TokenReader {
  /** The token that comes next; `ahead` 1 is the one after it. */
  peek(ahead?: number): Token;
  take(): Token;
  isNext(symbol: string): boolean;
  /** Takes the symbol if it is next. */
  accept(symbol: string): boolean;
  expect(symbol: string, inside: string): void;
  /** Counts a node. */
  node<N extends Node>(node: N): N;
  /** Counts one level of nesting around `read`. */
  nested<T>(read: () => T): T;
  refuse(at: number, reason: string): SvcError;
  /** The error of a token that cannot stand where it stands. */
  unexpected(token: Token): SvcError;
}

const assignment = 'assignment is refused: expressions only read.';

const symbolReasons: Readonly<Record<string, string>> = {
  '=': `${assignment} Write == to compare.`,
  '===': 'write == to compare.',
  '!==': 'write != to compare.',
  '++': assignment,
  '--': `${assignment} Write a space between two minus signs.`,
  '=>': 'functions are refused. In code and in .mjs or .ts configuration, give a function instead of a string.',
  '@': 'bean references are refused.',
  '&': 'write && or "and".',
  '|': 'write || or "or".',
  '`': "write a string in '…'.",
  '**': 'there is no power operator.',
  '^': 'there is no power operator.',
};

const wordReasons: Readonly<Record<string, string>> = {
  matches: 'regular expressions are refused: one can block the process.',
  instanceof: 'type tests are refused: expressions see values, not classes.',
  typeof: 'type tests are refused: expressions see values, not classes.',
  between: 'there is no "between": write a >= 1 && a <= 9.',
  in: 'there is no "in": write list.includes(value).',
};

function reasonAgainst(token: Token): string {
  if (token.kind === 'end') return 'the expression is not complete.';
  if (token.kind === 'broken') return token.text;
  if (token.kind === 'string') return 'a string is not expected here.';
  const known = token.kind === 'symbol' ? symbolReasons : wordReasons;
  // Own ones only: a token may be called like a member of Object.prototype.
  if (Object.hasOwn(known, token.text)) return known[token.text] as string;
  if (token.kind === 'symbol' && /^[+\-*/%]=$/u.test(token.text)) return assignment;
  return `"${token.kind === 'variable' ? '#' : ''}${token.text}" is not expected here.`;
}

export function readTokens(text: string): TokenReader {
  const tokens = tokenize(text);
  let position = 0;
  let depth = 0;
  let nodes = 0;

  // The last token is `end`, and nobody reads on after it.
  const peek = (ahead = 0): Token => tokens[Math.min(position + ahead, tokens.length - 1)] as Token;
  const take = (): Token => {
    const token = peek();
    position += 1;
    return token;
  };
  const isNext = (symbol: string): boolean => peek().kind === 'symbol' && peek().text === symbol;
  const accept = (symbol: string): boolean => {
    if (!isNext(symbol)) return false;
    position += 1;
    return true;
  };
  const refuse = (at: number, reason: string): SvcError =>
    refusal('SVC_CAPTURE_EXPRESSION_SYNTAX', text, at, reason);
  const unexpected = (token: Token): SvcError => refuse(token.at, reasonAgainst(token));

  return {
    peek,
    take,
    isNext,
    accept,
    refuse,
    unexpected,
    expect(symbol, inside) {
      if (accept(symbol)) return;
      const token = peek();
      if (token.kind === 'end') throw refuse(token.at, `"${symbol}" is missing at the end of ${inside}.`);
      throw unexpected(token);
    },
    node(node) {
      nodes += 1;
      if (nodes > maxNodes) throw refuse(node.at, `it has more than ${maxNodes} parts.`);
      return node;
    },
    nested(read) {
      depth += 1;
      if (depth > maxDepth) throw refuse(peek().at, `it is nested deeper than ${maxDepth} levels.`);
      const value = read();
      depth -= 1;
      return value;
    },
  };
}

import type { SvcError } from '../../errors.ts';
import { refusal } from './failure.ts';
import { maxDepth, maxNodes } from './limits.ts';
import type { Node } from './syntax-tree.ts';
import { type Token, tokenize } from './tokens.ts';

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

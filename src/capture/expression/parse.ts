import { methodRefusal } from './pure-methods.ts';
import { isForbiddenName } from './read.ts';
import type { BinaryOperator, Node } from './syntax-tree.ts';
import { readTokens, type TokenReader } from './tokens.ts';

type Element = 'outside' | 'inside';

/** What the reading functions share: the tokens, and whether a projection or selection is around the place. */
interface Place {
  readonly tokens: TokenReader;
  readonly element: Element;
}

/** Binary operators, loosest first; the words are SpEL's other spellings. */
const levels: readonly Readonly<Record<string, BinaryOperator>>[] = [
  { '??': '??' },
  { '||': '||', or: '||' },
  { '&&': '&&', and: '&&' },
  { '==': '==', '!=': '!=', eq: '==', ne: '!=' },
  { '<': '<', '<=': '<=', '>': '>', '>=': '>=', lt: '<', le: '<=', gt: '>', ge: '>=' },
  { '+': '+', '-': '-' },
  { '*': '*', '/': '/', '%': '%', div: '/', mod: '%' },
];

/** @throws SvcError `SVC_CAPTURE_EXPRESSION_SYNTAX` */
export function parse(text: string): Node {
  const tokens = readTokens(text);
  const tree = readExpression({ tokens, element: 'outside' });
  const rest = tokens.peek();
  if (rest.kind !== 'end') throw tokens.unexpected(rest);
  return tree;
}

/** `c ? a : b` and `a ?: b`, right to left. */
function readExpression(place: Place): Node {
  const { tokens } = place;
  const first = readBinary(place, 0);
  const { at } = tokens.peek();
  if (tokens.accept('?:')) {
    const right = tokens.nested(() => readExpression(place));
    return tokens.node({ kind: 'binary', at, operator: '?:', left: first, right });
  }
  if (!tokens.accept('?')) return first;
  const yes = tokens.nested(() => readExpression(place));
  tokens.expect(':', 'the condition, as in "c ? a : b"');
  const no = tokens.nested(() => readExpression(place));
  return tokens.node({ kind: 'conditional', at, test: first, yes, no });
}

function readBinary(place: Place, level: number): Node {
  const operators = levels[level];
  if (operators === undefined) return readUnary(place);
  const { tokens } = place;
  let left = readBinary(place, level + 1);
  for (;;) {
    const { kind, text, at } = tokens.peek();
    const isOperator = (kind === 'symbol' || kind === 'name') && Object.hasOwn(operators, text);
    const operator = isOperator ? operators[text] : undefined;
    if (operator === undefined) return left;
    tokens.take();
    const right = readBinary(place, level + 1);
    left = tokens.node({ kind: 'binary', at, operator, left, right });
  }
}

function readUnary(place: Place): Node {
  const { tokens } = place;
  const { kind, text, at } = tokens.peek();
  const isNot = (kind === 'symbol' && text === '!') || (kind === 'name' && text === 'not');
  if (!isNot && !(kind === 'symbol' && text === '-')) return readAccesses(place);
  tokens.take();
  const operand = tokens.nested(() => readUnary(place));
  return tokens.node({ kind: 'unary', at, operator: isNot ? '!' : '-', operand });
}

/** `.name`, `.method(…)`, `[…]`, `.![…]`, `.?[…]`, each also with `?.` before it. */
function readAccesses(place: Place): Node {
  const { tokens } = place;
  let target = readPrimary(place);
  for (;;) {
    const { at } = tokens.peek();
    if (tokens.accept('[')) {
      target = readIndex(place, target, at, false);
      continue;
    }
    const safe = tokens.accept('?.');
    if (!safe && !tokens.accept('.')) return target;
    target = readAfterDot(place, target, at, safe);
  }
}

function readAfterDot(place: Place, target: Node, at: number, safe: boolean): Node {
  const { tokens } = place;
  const token = tokens.take();
  // `$` is a name elsewhere, but here SpEL means the last one.
  if ((token.text === '^' || token.text === '$') && tokens.isNext('[')) {
    throw tokens.refuse(token.at, 'there is no first or last selection: write .?[…][0].');
  }
  if (token.kind === 'name') {
    return tokens.isNext('(')
      ? readCall(place, target, token.text, token.at, safe)
      : tokens.node(property(tokens, target, token.text, token.at, safe));
  }
  if (token.kind === 'symbol') {
    if (token.text === '[' && safe) return readIndex(place, target, at, true);
    const kind = token.text === '!' ? 'project' : token.text === '?' ? 'select' : undefined;
    if (kind !== undefined && tokens.accept('[')) {
      const body = tokens.nested(() => readExpression({ tokens, element: 'inside' }));
      tokens.expect(']', kind === 'project' ? 'the projection' : 'the selection');
      return tokens.node({ kind, at, target, body, safe });
    }
  }
  if (token.kind === 'end' || token.kind === 'broken') throw tokens.unexpected(token);
  throw tokens.refuse(token.at, 'the name of a property must follow the dot.');
}

function property(tokens: TokenReader, target: Node, name: string, at: number, safe: boolean): Node {
  refuseForbidden(tokens, name, at);
  return { kind: 'property', at, target, name, safe };
}

function refuseForbidden(tokens: TokenReader, name: string, at: number): void {
  if (isForbiddenName(name))
    throw tokens.refuse(at, `"${name}" is refused: prototypes and classes are out of reach.`);
}

function readIndex(place: Place, target: Node, at: number, safe: boolean): Node {
  const { tokens } = place;
  const key = tokens.nested(() => readExpression(place));
  if (key.kind === 'literal') {
    if (typeof key.value === 'string') refuseForbidden(tokens, key.value, key.at);
    else if (typeof key.value !== 'number' || !Number.isInteger(key.value)) {
      throw tokens.refuse(key.at, 'an index is a whole number or a string.');
    }
  }
  tokens.expect(']', 'the index');
  return tokens.node({ kind: 'index', at, target, key, safe });
}

function readCall(place: Place, target: Node, name: string, at: number, safe: boolean): Node {
  const { tokens } = place;
  refuseForbidden(tokens, name, at);
  const refused = methodRefusal(name);
  if (refused !== undefined) throw tokens.refuse(at, refused);
  tokens.expect('(', 'the call');
  const args = readList(place, ')', 'the arguments');
  return tokens.node({ kind: 'call', at, target, name, args, safe });
}

/** Comma-separated expressions up to the closing symbol, which is taken too. */
function readList(place: Place, close: string, inside: string): Node[] {
  const { tokens } = place;
  const items: Node[] = [];
  if (tokens.accept(close)) return items;
  do {
    items.push(tokens.nested(() => readExpression(place)));
  } while (tokens.accept(','));
  tokens.expect(close, inside);
  return items;
}

function readPrimary(place: Place): Node {
  const { tokens } = place;
  const token = tokens.take();
  const { at, text } = token;
  switch (token.kind) {
    case 'string':
      return tokens.node({ kind: 'literal', at, value: text });
    case 'number':
      return tokens.node({ kind: 'literal', at, value: readNumber(tokens, text, at) });
    case 'variable':
      if (tokens.isNext('(')) throw tokens.refuse(at, 'functions are refused.');
      return variable(place, text, at);
    case 'name':
      return readName(place, text, at);
    case 'symbol':
      if (text === '(') {
        const inner = tokens.nested(() => readExpression(place));
        tokens.expect(')', 'the bracket');
        return inner;
      }
      if (text === '{') return readBraces(place, at);
      break;
  }
  throw tokens.unexpected(token);
}

function readNumber(tokens: TokenReader, digits: string, at: number): number {
  const value = Number(digits);
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw tokens.refuse(at, 'this number is too large to be exact.');
  }
  const after = tokens.peek();
  if (after.kind === 'name' && after.at === at + digits.length) {
    throw tokens.refuse(after.at, 'a number has no suffix here.');
  }
  return value;
}

/** `#name`: `#this` is the element inside of a projection or selection. */
function variable({ tokens, element }: Place, name: string, at: number): Node {
  if (name === 'this' && element === 'inside') return tokens.node({ kind: 'element', at });
  refuseForbidden(tokens, name, at);
  return tokens.node({ kind: 'variable', at, name });
}

/** A name without `#`: the same as with it, but inside of a projection or selection a property of the element. */
function readName(place: Place, name: string, at: number): Node {
  const { tokens, element } = place;
  if (name === 'new')
    throw tokens.refuse(at, '"new" is refused: expressions construct no objects of classes.');
  if (tokens.isNext('(')) {
    throw tokens.refuse(at, name === 'T' ? 'type references T(…) are refused.' : 'functions are refused.');
  }
  if (name === 'null') return tokens.node({ kind: 'literal', at, value: null });
  if (name === 'true' || name === 'false')
    return tokens.node({ kind: 'literal', at, value: name === 'true' });
  if (name === 'this' || element === 'outside') return variable(place, name, at);
  return tokens.node(property(tokens, tokens.node({ kind: 'element', at }), name, at, false));
}

/** After `{`: a map `{a: 1, 'b': 2}`, the empty map `{:}`, or a list `{1, 2}`, `{}`. */
function readBraces(place: Place, at: number): Node {
  const { tokens } = place;
  if (tokens.accept(':')) {
    tokens.expect('}', 'the empty map {:}');
    return tokens.node({ kind: 'map', at, keys: [], values: [] });
  }
  const colon = tokens.peek(1);
  if (colon.kind !== 'symbol' || colon.text !== ':' || tokens.isNext('}')) {
    return tokens.node({ kind: 'list', at, items: readList(place, '}', 'the list') });
  }
  const keys: string[] = [];
  const values: Node[] = [];
  do {
    keys.push(readKey(tokens, keys));
    tokens.expect(':', 'the key');
    values.push(tokens.nested(() => readExpression(place)));
  } while (tokens.accept(','));
  tokens.expect('}', 'the map');
  return tokens.node({ kind: 'map', at, keys, values });
}

function readKey(tokens: TokenReader, before: readonly string[]): string {
  const { kind, text, at } = tokens.take();
  if (kind !== 'name' && kind !== 'string' && kind !== 'number') {
    throw tokens.refuse(at, 'a key is a name, a string or a number.');
  }
  refuseForbidden(tokens, text, at);
  if (before.includes(text)) throw tokens.refuse(at, `the key "${text}" is there twice.`);
  return text;
}

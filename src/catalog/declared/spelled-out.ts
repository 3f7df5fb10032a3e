// declared/: which event types configuration and code declare, and what they say of payloads, by reading alone.

import { type Token, tokenize } from '../../capture/expression/tokens.ts';
import { type Kind, propertiesOf, type Shape, unknownShape } from '../shape/shape.ts';

/**
 * What an expression for a payload spells out: the names of `{ orderId: #result.id }`, and the types of what is written into it. Of any other
 * what `known` knows.
 */
export function spelledOut(expression: string, known: Known = () => undefined): Shape {
  const tokens = tokenize(expression);
  return asPayload(shapeOf(tokens.slice(0, -1), known));
}

/** What is known of a value of the call that stands there as it is: `#result.id`. */
type Known = (tokens: readonly Token[]) => Shape | undefined;

/** What is no object is published as `{ "value": … }`. */
function asPayload(shape: Shape | undefined): Shape {
  if (shape?.type === undefined || shape.type.includes('object')) return shape ?? unknownShape;
  return { type: ['object'], properties: { value: shape }, isClosed: true };
}

const isSymbol = (token: Token | undefined, text: string): boolean =>
  token?.kind === 'symbol' && token.text === text;

function shapeOf(tokens: readonly Token[], known: Known): Shape | undefined {
  const [first, second] = tokens;
  if (first === undefined) return undefined;
  if (isSymbol(first, '(') && closing(tokens, 0) === tokens.length - 1)
    return shapeOf(tokens.slice(1, -1), known);
  if (isSymbol(first, '{') && closing(tokens, 0) === tokens.length - 1)
    return isMap(tokens) ? mapOf(tokens.slice(1, -1), known) : { type: ['array'] };
  const kind = second === undefined ? literalOf(first) : undefined;
  return kind === undefined ? known(tokens) : { type: [kind] };
}

/** `{a: 1}` and `{:}`; else it is a list. */
const isMap = (tokens: readonly Token[]): boolean => isSymbol(tokens[1], ':') || isSymbol(tokens[2], ':');

function mapOf(tokens: readonly Token[], known: Known): Shape {
  const entries = isSymbol(tokens[0], ':') ? [] : partsOf(tokens);
  return {
    type: ['object'],
    properties: propertiesOf(
      entries.map(([key, , ...value]) => [key?.text ?? '', shapeOf(value, known) ?? unknownShape]),
    ),
    isClosed: true,
  };
}

function literalOf({ kind, text }: Token): Kind | undefined {
  if (kind === 'string') return 'string';
  if (kind === 'number') return Number.isInteger(Number(text)) ? 'integer' : 'number';
  if (kind !== 'name') return undefined;
  return text === 'null' ? 'null' : /^(?:true|false)$/.test(text) ? 'boolean' : undefined;
}

/** Between commas that stand in no brackets. */
function partsOf(tokens: readonly Token[]): Token[][] {
  const parts: Token[][] = [[]];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    if (isSymbol(token, ',')) parts.push([]);
    else if (isOpening(token)) {
      const end = closing(tokens, at);
      parts.at(-1)?.push(...tokens.slice(at, end + 1));
      at = end;
    } else parts.at(-1)?.push(token);
  }
  return parts;
}

const isOpening = ({ kind, text }: Token): boolean => kind === 'symbol' && /^[([{]$/.test(text);

/** Where the bracket that opens at `start` is closed. */
function closing(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let at = start; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    if (isOpening(token)) depth++;
    else if (token.kind === 'symbol' && /^[)\]}]$/.test(token.text) && --depth === 0) return at;
  }
  return tokens.length;
}

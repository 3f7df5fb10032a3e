import { eventTypeOf } from '../capture/declare/make-plan.ts';
import { type Token, tokenize } from '../capture/expression/compile.ts';
import {
  type DeclaredEvent,
  findDeclared,
  type SpelledObject,
  spelledByText,
} from '../capture/source/declared.ts';
import { checkRulesOf } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';
import type { PathRule } from '../ground/pii-rule.ts';
import { type Kind, merged, propertiesOf, type Shape, unknownShape } from './shape.ts';

/** An event type as declared in the configuration and in code. */
export interface Declared {
  readonly from: readonly string[];
  readonly topics: readonly string[];
  /** Expressions. Empty: the event id. */
  readonly keys: readonly string[];
  readonly payload: Shape;
  /** Its own rules. Rules for all events apply afterwards. */
  readonly rules: readonly PathRule[];
}

export interface DeclaredTypes {
  readonly types: ReadonlyMap<string, Declared>;
  /** Places whose event type or topic is known only at runtime. */
  readonly unknown: readonly string[];
}

/** All event types in the configuration and the sources. */
export function declaredTypes(config: Config): DeclaredTypes {
  const types = new Map<string, Declared>();
  const unknown: string[] = [];
  const add = (eventType: string, one: Declared): void => {
    const known = types.get(eventType);
    types.set(eventType, known === undefined ? one : together(known, one));
  };
  for (const target of config.targets) add(eventTypeOf(target), ofTarget(target, config));
  for (const event of findDeclared(config.baseDir).events) {
    const { eventType, topic, file, line } = event;
    if (isTest(file)) continue;
    if (eventType === undefined || topic === undefined) unknown.push(`${file}:${line}`);
    if (eventType !== undefined) add(eventType, ofCode(event, config));
  }
  return { types, unknown };
}

function together(a: Declared, b: Declared): Declared {
  // If one payload is unknown, the union is open.
  const payload = merged(open(a.payload, b.payload), open(b.payload, a.payload));
  return {
    from: union(a.from, b.from),
    topics: union(a.topics, b.topics),
    keys: union(a.keys, b.keys),
    payload,
    rules: [...a.rules, ...b.rules],
  };
}

function open(shape: Shape, other: Shape): Shape {
  const { isClosed: _, ...rest } = shape;
  return other.isClosed ? shape : rest;
}

const union = (a: readonly string[], b: readonly string[]): string[] => [...new Set([...a, ...b])].sort();

function ofTarget(target: TargetConfig, { broker }: Config): Declared {
  const { payload, key, outbox, pii, id } = target;
  const keyed = key ?? outbox?.aggregateId;
  return {
    from: [id],
    topics: [target.topic ?? broker.topic],
    keys: keyed === undefined ? [] : [typeof keyed === 'string' ? keyed : 'a function'],
    payload: ofExpression(payload),
    rules: pii ?? [],
  };
}

function ofCode({ file, name, topic, key, payload, pii }: DeclaredEvent, { broker }: Config): Declared {
  const spelled = typeof payload === 'string' ? spelledOut(payload) : payload && shapeOf(payload);
  return {
    from: [`${file}#${name}`],
    topics: topic === undefined ? [] : [topic ?? broker.topic],
    keys: key === undefined ? [] : [key],
    payload: spelled ?? unknownShape,
    rules: rulesOf(pii),
  };
}

function ofExpression(payload: TargetConfig['payload']): Shape {
  if (typeof payload === 'string') return spelledOut(payload);
  const spelled = typeof payload === 'function' ? spelledByText(payload.toString()) : undefined;
  return spelled === undefined ? unknownShape : shapeOf(spelled);
}

/** Invalid rules are reported when the application starts. */
function rulesOf(pii: unknown): readonly PathRule[] {
  const checked = pii === undefined ? undefined : checkRulesOf(pii, true);
  return checked?.ok ? checked.value : [];
}

function shapeOf({ properties, isWhole }: SpelledObject): Shape {
  return {
    type: ['object'],
    properties: propertiesOf(Object.entries(properties).map(([name, value]) => [name, shapeOfValue(value)])),
    ...(isWhole && { isClosed: true }),
  };
}

function shapeOfValue(value: SpelledObject['properties'][string]): Shape {
  if (value === 'unknown') return unknownShape;
  return typeof value === 'string' ? { type: [value] } : shapeOf(value);
}

const tests =
  /(?:^|\/)(?:tests?|__tests__|__mocks__|specs?|e2e|fixtures|seeds?)\/|\.(?:test|spec|e2e|mock)\./;
/** Tests publish other events than the application. */
export const isTest = (path: string): boolean => tests.test(path.replaceAll('\\', '/'));

// The payloads that configuration and code spell out.

/**
 * The shape that a payload expression spells out: the names of `{ orderId: #result.id }` and the types of literals. `known` supplies the
 * shapes of other expressions.
 */
export function spelledOut(expression: string, known: Known = () => undefined): Shape {
  const tokens = tokenize(expression);
  return asPayload(shapeOfOfSpelledOut(tokens.slice(0, -1), known));
}

/** The known shape of a value such as `#result.id`. */
type Known = (tokens: readonly Token[]) => Shape | undefined;

/** A payload that is not an object is published as `{ "value": … }`. */
function asPayload(shape: Shape | undefined): Shape {
  if (shape?.type === undefined || shape.type.includes('object')) return shape ?? unknownShape;
  return { type: ['object'], properties: { value: shape }, isClosed: true };
}

const isSymbol = (token: Token | undefined, text: string): boolean =>
  token?.kind === 'symbol' && token.text === text;

function shapeOfOfSpelledOut(tokens: readonly Token[], known: Known): Shape | undefined {
  const [first, second] = tokens;
  if (first === undefined) return undefined;
  if (isSymbol(first, '(') && closing(tokens, 0) === tokens.length - 1)
    return shapeOfOfSpelledOut(tokens.slice(1, -1), known);
  if (isSymbol(first, '{') && closing(tokens, 0) === tokens.length - 1)
    return isMap(tokens) ? mapOf(tokens.slice(1, -1), known) : { type: ['array'] };
  const kind = second === undefined ? literalOf(first) : undefined;
  return kind === undefined ? known(tokens) : { type: [kind] };
}

/** `{a: 1}` and `{:}`. Otherwise it is a list. */
const isMap = (tokens: readonly Token[]): boolean => isSymbol(tokens[1], ':') || isSymbol(tokens[2], ':');

function mapOf(tokens: readonly Token[], known: Known): Shape {
  const entries = isSymbol(tokens[0], ':') ? [] : partsOf(tokens);
  return {
    type: ['object'],
    properties: propertiesOf(
      entries.map(([key, , ...value]) => [
        key?.text ?? '',
        shapeOfOfSpelledOut(value, known) ?? unknownShape,
      ]),
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

/** Splits at commas outside brackets. */
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

/** The index of the closing bracket. */
function closing(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let at = start; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    if (isOpening(token)) depth++;
    else if (token.kind === 'symbol' && /^[)\]}]$/.test(token.text) && --depth === 0) return at;
  }
  return tokens.length;
}

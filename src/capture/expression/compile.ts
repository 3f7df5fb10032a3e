// expression/: the language of `payload`, `key` and `when`, from text to tokens to a function. It reads, and calls pure
// functions.

import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import { fitsOutboxText, longestOutboxText } from '../../ground/event-fields.ts';
import {
  callOwn,
  type Evaluate,
  type ExpressionScope,
  expressionError,
  failureOf,
  forbiddenNames,
  isAwaitable,
  isCallable,
  makeList,
  makeMap,
  maxDepth,
  maxParts,
  maxTextLength,
  maxVisitedElements,
  methodCaller,
  nameReader,
  negate,
  operators,
  outOfReach,
  project,
  Refusal,
  readIndex,
  readProperty,
  refusedValue,
  select,
  unknownName,
  usable,
  type Walk,
} from './values.ts';

export type { ExpressionScope } from './values.ts';

/** A parsed expression of the read-only language that `docs/expressions.md` describes. */
export interface Expression {
  readonly text: string;
  /** The names that the expression uses, without `#`, in order of first use. */
  readonly variables: readonly string[];
  /**
   * Compiles the expression for one function.
   *
   * @param parameterNames the function's parameters by position, `''` for one without a name (destructured, rest).
   *   `undefined` if unknown: then only `result`, `args`, `self`, `error`, `p0`, `a0`, … are valid names
   * @returns the evaluation of the expression for a call; `undefined` for a missing property. It throws `SvcError`
   *   `SVC_CAPTURE_EXPRESSION`, or `SVC_CAPTURE_EXPRESSION_ASYNC` for a promise. The message contains the text of the
   *   expression and the position, never a value of the call or the message of the application's own error
   * @throws SvcError `SVC_CAPTURE_EXPRESSION_NAME` for a name that this function does not have
   */
  bind(parameterNames: readonly string[] | undefined): (call: ExpressionScope) => unknown;
}

/**
 * Parses an expression. Refuses everything that does more than read.
 *
 * @throws SvcError `SVC_CAPTURE_EXPRESSION_SYNTAX`, with the column and the reason
 */
export function parseExpression(text: string): Expression {
  if (text.length > maxTextLength) {
    const reason = `it is longer than ${maxTextLength} characters.`;
    throw expressionError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'refused', text, maxTextLength, reason);
  }
  const parser = new Parser(text);
  const evaluate = parser.parse();
  const { names } = parser;

  return {
    text,
    variables: [...names.keys()],
    bind(parameterNames) {
      const readers = Array.from(names, ([name, offset]) => {
        const reader = nameReader(name, parameterNames);
        if (reader !== undefined) return reader;
        const reason = unknownName(name, parameterNames);
        throw expressionError('SVC_CAPTURE_EXPRESSION_NAME', 'refused', text, offset, reason);
      });
      return (call) => {
        const left = maxVisitedElements;
        const walk: Walk = { call, names: readers, at: 0, element: undefined, left, startedAt: undefined };
        try {
          const value = evaluate(walk);
          walk.at = 0;
          if (isAwaitable(value)) throw refusedValue(value);
          return value;
        } catch (error) {
          throw failureOf(error, (reason, code) => expressionError(code, 'failed', text, walk.at, reason));
        }
      };
    },
  };
}

/** A function in place of an expression. It gets the arguments, the result, `this` and the error of the call. */
export type Selector = (scope: ExpressionScope) => unknown;

export interface PayloadSpec {
  readonly payload?: string | Selector | undefined;
  /** -1 (default): the result; 0, 1, …: that argument. Ignored if there is a `payload`. */
  readonly payloadIndex?: number | undefined;
}

/**
 * Returns the function that selects the payload of a call. It may return a selected `undefined` or `null`.
 *
 * @param parameterNames as for {@link parseExpression}
 * @throws SvcError for an unusable expression or index. The returned function throws `SvcError` if the call lacks the
 *   value (`SVC_CAPTURE_EXPRESSION`, `SVC_CAPTURE_EXPRESSION_ASYNC`, `SVC_CAPTURE_PAYLOAD_INDEX`)
 */
export function payloadSelector(
  spec: PayloadSpec,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  const { payload, payloadIndex = -1 } = spec;
  if (payload !== undefined) return selector(payload, 'payload', parameterNames);
  if (!Number.isInteger(payloadIndex) || payloadIndex < -1) {
    throw new SvcError(
      'SVC_CAPTURE_PAYLOAD_INDEX',
      'payloadIndex must be -1 (the result) or the position of an argument.',
    );
  }
  const what = payloadIndex === -1 ? 'The result' : `Argument ${payloadIndex}`;
  return (call) => {
    if (payloadIndex >= call.args.length) {
      const given = `payloadIndex is ${payloadIndex}, but the call has ${call.args.length} arguments.`;
      throw new SvcError('SVC_CAPTURE_PAYLOAD_INDEX', given);
    }
    return guarded(what, () => usable(payloadIndex === -1 ? call.result : call.args[payloadIndex]));
  };
}

/**
 * Returns the function that selects the record key of a call: the text of a string, number, bigint or boolean. Anything
 * else fails with `SVC_CAPTURE_EXPRESSION`, including null and undefined.
 *
 * @throws as {@link payloadSelector}
 */
export function keySelector(
  spec: string | Selector,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => string {
  const select = selector(spec, 'key', parameterNames);
  return (call) => {
    const { text, found } = asText(select(call));
    if (text !== undefined) return text;
    const says = `${placeOf(spec, 'key')} gave ${found}; a key is a string, a number or a boolean.`;
    throw new SvcError('SVC_CAPTURE_EXPRESSION', says);
  };
}

/**
 * Returns the function that selects the aggregate id of a call, as {@link keySelector} does the key. An empty or
 * missing id fails with `SVC_OUTBOX_AGGREGATE_ID`: its events would have no order.
 *
 * @throws as {@link payloadSelector}
 */
export function aggregateIdSelector(
  spec: string | Selector,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => string {
  const select = selector(spec, 'aggregateId', parameterNames);
  return (call) => {
    const { text, found } = asText(select(call));
    if (text !== undefined && text !== '' && fitsOutboxText(text)) return text;
    const other = text === '' ? 'an empty text' : `more than ${longestOutboxText} bytes`;
    const says = `${placeOf(spec, 'aggregateId')} gave ${found ?? other}; the id of an aggregate is a non-empty string, a number or a boolean.`;
    throw new SvcError('SVC_OUTBOX_AGGREGATE_ID', says);
  };
}

function placeOf(spec: string | Selector, name: string): string {
  return typeof spec === 'string' ? `The ${name} expression "${spec}"` : `The ${name} function`;
}

/** The text of a value that is valid as a key; otherwise a description of the value. */
function asText(value: unknown): { readonly text?: string; readonly found?: string } {
  const type = typeof value;
  if (type === 'string') return { text: value as string };
  if ((type === 'bigint' && !isTooBig(value as bigint)) || type === 'boolean' || Number.isFinite(value))
    return { text: String(value) };
  if (value === null || value === undefined) return { found: String(value) };
  return { found: type === 'object' ? 'an object' : 'no number' };
}

/** Whether a call makes an event, by JavaScript's rules for conditions. A promise fails. */
export function whenSelector(
  spec: string | Selector,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => boolean {
  const select = selector(spec, 'when', parameterNames);
  return (call) => Boolean(select(call));
}

/** Evaluates an expression, or calls the function in its place with the scope of expressions. */
export function selector(
  spec: string | Selector,
  name: string,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  if (typeof spec === 'string') return parseExpression(spec).bind(parameterNames);
  return (call) => {
    let refusal: unknown;
    // Only the documented fields of the call.
    const scope: ExpressionScope = {
      args: call.args,
      get result() {
        try {
          return call.result;
        } catch (reason) {
          refusal = reason;
          throw reason;
        }
      },
      self: call.self,
      error: call.error,
    };
    try {
      const value = guarded(`The ${name} function`, () => callOwn(spec, undefined, [scope]));
      if (refusal === undefined) return value;
    } catch (error) {
      if (refusal === undefined) throw error;
    }
    // Even if the function caught it.
    throw refusal;
  };
}

function guarded<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw failureOf(error, (reason, code) => new SvcError(code, `${what} failed: ${reason}`));
  }
}

const literals: ReadonlyMap<string, boolean | null> = new Map([
  ['null', null],
  ['true', true],
  ['false', false],
]);

type Step = (value: unknown, walk: Walk) => unknown;

/** Parses a text once, from left to right, into closures. Never evaluates code from a string. */
export class Parser {
  /** The names that the call must define, with the offset of their first use. */
  readonly names: Map<string, number> = new Map();
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #position = 0;
  #depth = -1;
  #parts = 0;
  /** Whether a projection or selection surrounds the position. */
  #hasElement = false;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = tokenize(text);
  }

  /** @throws SvcError `SVC_CAPTURE_EXPRESSION_SYNTAX` */
  parse(): Evaluate {
    const evaluate = this.#expression();
    if (this.#next.kind !== 'end') throw this.#unexpected(this.#next);
    return evaluate;
  }

  get #next(): Token {
    return this.#tokens[this.#position] as Token;
  }

  /** Does not move past the last token, `end`. */
  #take(): Token {
    const token = this.#next;
    if (token.kind !== 'end') this.#position += 1;
    return token;
  }

  #isNext(symbol: string, ahead = 0): boolean {
    const token = this.#tokens[this.#position + ahead];
    return token?.kind === 'symbol' && token.text === symbol;
  }

  #accept(symbol: string): boolean {
    const isNext = this.#isNext(symbol);
    if (isNext) this.#position += 1;
    return isNext;
  }

  #expect(symbol: string): void {
    if (this.#accept(symbol)) return;
    throw this.#unexpected(this.#next, `"${symbol}" is missing`);
  }

  #refuse({ at }: { readonly at: number }, reason: string): SvcError {
    return expressionError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'refused', this.#text, at, reason);
  }

  #unexpected(token: Token, missing?: string): SvcError {
    return this.#refuse(token, reasonAgainst(token, missing));
  }

  #refuseForbidden(token: Token): void {
    if (forbiddenNames.has(token.text))
      throw this.#refuse(token, `"${token.text}" is refused: ${outOfReach}`);
  }

  #part(at: number, evaluate: Evaluate): Evaluate {
    this.#parts += 1;
    if (this.#parts > maxParts) throw this.#refuse({ at }, `it has more than ${maxParts} parts.`);
    return evaluate;
  }

  #nested(read: () => Evaluate): Evaluate {
    this.#depth += 1;
    if (this.#depth > maxDepth)
      throw this.#refuse(this.#next, `it is nested deeper than ${maxDepth} levels.`);
    const evaluate = read();
    this.#depth -= 1;
    return evaluate;
  }

  /** `c ? a : b` and `a ?: b`, right to left. */
  #expression(): Evaluate {
    return this.#nested(() => {
      const test = this.#binary(0);
      const { at } = this.#next;
      if (this.#accept('?:')) {
        const other = this.#expression();
        return this.#part(at, (walk) => {
          const value = test(walk);
          return value === null || value === undefined || value === '' ? other(walk) : value;
        });
      }
      if (!this.#accept('?')) return test;
      const yes = this.#expression();
      this.#expect(':');
      const no = this.#expression();
      return this.#part(at, (walk) => (test(walk) ? yes(walk) : no(walk)));
    });
  }

  #binary(lowest: number): Evaluate {
    let left = this.#unary();
    for (;;) {
      const { kind, text, at } = this.#next;
      const operator = kind === 'symbol' || kind === 'name' ? operators.get(text) : undefined;
      if (operator === undefined || operator.level < lowest) return left;
      this.#take();
      left = this.#part(at, operator.make(left, this.#binary(operator.level + 1), at));
    }
  }

  #unary(): Evaluate {
    const { kind, text, at } = this.#next;
    const isNot = (kind === 'symbol' && text === '!') || (kind === 'name' && text === 'not');
    if (!isNot && !this.#isNext('-')) return this.#accesses();
    this.#take();
    const operand = this.#nested(() => this.#unary());
    return this.#part(at, isNot ? (walk) => !operand(walk) : negate(operand, at));
  }

  /** `.name`, `.method(…)`, `[…]`, `.![…]`, `.?[…]`, each also with `?.` before it. */
  #accesses(): Evaluate {
    let target = this.#primary();
    for (;;) {
      const { at } = this.#next;
      if (this.#accept('[')) target = this.#index(target, at, false);
      else if (this.#accept('.')) target = this.#afterDot(target, at, false);
      else if (this.#accept('?.')) target = this.#afterDot(target, at, true);
      else return target;
    }
  }

  #afterDot(target: Evaluate, dot: number, safe: boolean): Evaluate {
    if (safe && this.#accept('[')) return this.#index(target, dot, true);
    const token = this.#take();
    const { kind, text, at } = token;
    // `$` is a name elsewhere; here it is SpEL's selection of the last element.
    if (kind === 'name' && !(text === '$' && this.#isNext('['))) {
      this.#refuseForbidden(token);
      if (!this.#accept('(')) return this.#access(target, at, safe, propertyOf(text));
      if (!isCallable(text)) {
        const may = 'toX, getX, isX, hasX and asX of objects, and those of built-in values that only read';
        throw this.#refuse(token, `the method "${text}" is refused: an expression calls ${may}.`);
      }
      const args = this.#list(')');
      const invoke = methodCaller(text);
      return this.#access(target, at, safe, (value, walk) => {
        const values = args(walk);
        walk.at = at;
        return invoke(value, values);
      });
    }
    if (kind === 'symbol' && (text === '!' || text === '?') && this.#accept('[')) {
      const outer = this.#hasElement;
      this.#hasElement = true;
      const body = this.#expression();
      this.#hasElement = outer;
      this.#expect(']');
      return this.#access(target, dot, safe, text === '!' ? project(body) : select(body));
    }
    throw this.#unexpected(token);
  }

  /** `?.` covers only its own step, as in SpEL: later steps continue with null. */
  #access(target: Evaluate, at: number, safe: boolean, step: Step): Evaluate {
    return this.#part(at, (walk) => {
      const value = target(walk);
      walk.at = at;
      if (value !== null && value !== undefined) return step(value, walk);
      if (safe) return null;
      throw new Refusal(`the value before it is ${value}. Write "?." where it may be missing.`);
    });
  }

  #index(target: Evaluate, at: number, safe: boolean): Evaluate {
    const from = this.#position;
    const key = this.#expression();
    const read = this.#tokens.slice(from, this.#position);
    const [token, ...others] = read.filter(({ kind, text }) => kind !== 'symbol' || !/^[()]$/.test(text));
    // A single literal in brackets.
    if (token !== undefined && others.length === 0) {
      const { kind, text } = token;
      if (kind === 'string') this.#refuseForbidden(token);
      if (kind === 'number' ? !Number.isInteger(Number(text)) : kind === 'name' && literals.has(text))
        throw this.#refuse(token, 'an index is a whole number or a string.');
    }
    this.#expect(']');
    return this.#access(target, at, safe, (value, walk) => {
      const name = key(walk);
      walk.at = at;
      return readIndex(value, name, walk.call);
    });
  }

  /** Comma-separated expressions, including the closing symbol. */
  #list(close: string): (walk: Walk) => unknown[] {
    const items: Evaluate[] = [];
    if (!this.#accept(close)) {
      do items.push(this.#expression());
      while (this.#accept(','));
      this.#expect(close);
    }
    return makeList(items);
  }

  #primary(): Evaluate {
    const token = this.#take();
    const { kind, at, text } = token;
    if (kind === 'string') return this.#part(at, () => text);
    if (kind === 'number') return this.#number(token);
    if (kind === 'variable' || kind === 'name') return this.#name(token);
    if (kind === 'symbol' && text === '{') return this.#part(at, this.#braces());
    if (kind !== 'symbol' || text !== '(') throw this.#unexpected(token);
    const inner = this.#expression();
    this.#expect(')');
    return inner;
  }

  #number(token: Token): Evaluate {
    const value = Number(token.text);
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))
      throw this.#refuse(token, 'this number is too large to be exact.');
    const after = this.#next;
    if (after.kind === 'name' && after.at === token.at + token.text.length) throw this.#unexpected(after);
    return this.#part(token.at, () => value);
  }

  /** Inside a projection or selection, `this` is the element, and a name without `#` one of its properties. */
  #name(token: Token): Evaluate {
    const { kind, text, at } = token;
    if ((kind === 'name' && text === 'new') || this.#isNext('('))
      throw this.#refuse(token, `"${text}" is refused: there are no functions, type references or "new".`);
    const literal = kind === 'name' ? literals.get(text) : undefined;
    if (literal !== undefined) return this.#part(at, () => literal);
    this.#refuseForbidden(token);
    if (this.#hasElement && (kind === 'name' || text === 'this')) {
      const element = this.#part(at, (walk) => walk.element);
      return text === 'this' ? element : this.#access(element, at, false, propertyOf(text));
    }
    if (!this.names.has(text)) this.names.set(text, at);
    const index = [...this.names.keys()].indexOf(text);
    return this.#part(at, (walk) => {
      walk.at = at;
      return usable((walk.names[index] as Walk['names'][number])(walk.call));
    });
  }

  /** After `{`: a map `{a: 1, 'b': 2}`, the empty map `{:}`, or a list `{1, 2}`, `{}`. */
  #braces(): Evaluate {
    const values = new Map<string, Evaluate>();
    if (this.#accept(':')) this.#expect('}');
    else if (this.#isNext('}') || !this.#isNext(':', 1)) return this.#list('}');
    else {
      do {
        const key = this.#key(values);
        this.#expect(':');
        values.set(key, this.#expression());
      } while (this.#accept(','));
      this.#expect('}');
    }
    return makeMap(values);
  }

  #key(before: ReadonlyMap<string, Evaluate>): string {
    const token = this.#take();
    if (token.kind !== 'name' && token.kind !== 'string' && token.kind !== 'number')
      throw this.#unexpected(token);
    this.#refuseForbidden(token);
    if (before.has(token.text)) throw this.#refuse(token, `the key "${token.text}" occurs twice.`);
    return token.text;
  }
}

function propertyOf(name: string): Step {
  return (value, walk) => readProperty(value, name, walk.call);
}

/** A `symbol` may be a character outside the grammar: the parser reports why it is refused. */
export interface Token {
  readonly kind: 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'end';
  /** The name without `#`, the content of a string, the digits of a number, the symbol. */
  readonly text: string;
  /** Offset of the first character. */
  readonly at: number;
}

const name = String.raw`([\p{ID_Start}$_][\p{ID_Continue}$]*)`;

/** In the order of the groups. In strings, as in SpEL, a doubled quote is one quote, and a backslash an ordinary character. */
const kinds = ['name', 'variable', 'number', 'string', 'string', 'symbol'] as const;
const pattern = new RegExp(
  [
    String.raw`[\s\u200b\ufeff]+|${name}|#${name}|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`,
    `'((?:[^']|'')*)'(?!')|"((?:[^"]|"")*)"(?!")`,
    String.raw`(===|!==|=>|\?\.|\?:|\?\?|&&|\|\||\*\*|\+\+|--|[=!<>+\-*/%]=|.)`,
  ].join('|'),
  'gsu',
);

/** Ends with the only `end`. */
export function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const found of text.matchAll(pattern)) {
    const group = found.findIndex((part, index) => index > 0 && part !== undefined);
    const kind = kinds[group - 1];
    if (kind === undefined) continue;
    const part = found[group] as string;
    const quote = found[0].charAt(0);
    const content = kind === 'string' ? part.replaceAll(quote + quote, quote) : part;
    tokens.push({ kind, text: content, at: found.index });
  }
  tokens.push({ kind: 'end', text: '', at: text.length });
  return tokens;
}

/** Replacements to suggest for unexpected symbols. */
const instead: ReadonlyMap<string, string> = new Map([
  ['=', '== to compare, assignment does not exist'],
  ['===', '=='],
  ['!==', '!='],
  ['&', '&&'],
  ['|', '||'],
  ['--', '- -'],
  ["'", "both quotes of '…'"],
  ['"', 'both quotes of "…"'],
  ['`', "'…'"],
  ['#', 'a name behind it, as in #result, and no #{…} around an expression'],
  ['=>', 'a function instead of the expression, if the configuration is code'],
  ['between', 'a >= 1 && a <= 9'],
  ['in', 'list.includes(value)'],
]);

function reasonAgainst({ kind, text }: Token, missing: string | undefined): string {
  const other = kind === 'symbol' || kind === 'name' ? instead.get(text) : undefined;
  const hint = other === undefined ? (missing ?? 'expressions only read') : `write ${other}`;
  const found = `"${kind === 'variable' ? '#' : ''}${text}" is not expected here`;
  return `${kind === 'end' ? 'it is incomplete' : found}: ${hint}.`;
}

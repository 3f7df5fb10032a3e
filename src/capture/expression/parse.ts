import type { SvcError } from '../../ground/errors.ts';
import {
  type Evaluate,
  expressionError,
  forbiddenNames,
  isCallable,
  makeList,
  makeMap,
  maxDepth,
  maxParts,
  methodCaller,
  negate,
  operators,
  outOfReach,
  project,
  Refusal,
  readIndex,
  readProperty,
  select,
  usable,
  type Walk,
} from './values.ts';

const literals: ReadonlyMap<string, boolean | null> = new Map([
  ['null', null],
  ['true', true],
  ['false', false],
]);

type Step = (value: unknown, walk: Walk) => unknown;

/** Reads a text once, from left to right, and makes what evaluates it: closures, never code from a string. */
export class Parser {
  /** The names that the call must give a meaning to, and where each is used first. */
  readonly names: Map<string, number> = new Map();
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #position = 0;
  #depth = -1;
  #parts = 0;
  /** Whether a projection or selection is around the place. */
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

  /** The last one is `end`, and stays the next. */
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

  /** Counts a part of the expression. */
  #part(at: number, evaluate: Evaluate): Evaluate {
    this.#parts += 1;
    if (this.#parts > maxParts) throw this.#refuse({ at }, `it has more than ${maxParts} parts.`);
    return evaluate;
  }

  /** Counts one level of nesting. */
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
    // `$` is a name elsewhere, but here SpEL means the last one.
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

  /** `?.` covers its own step only, as in SpEL: the steps after it go on with that null. */
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
    // One literal, whatever brackets are around it.
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

  /** Comma-separated expressions up to the closing symbol, which is taken too. */
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

  /** Inside of a projection or selection `this` is the element, and a name without `#` one of its properties. */
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
    if (before.has(token.text)) throw this.#refuse(token, `the key "${token.text}" is there twice.`);
    return token.text;
  }
}

function propertyOf(name: string): Step {
  return (value, walk) => readProperty(value, name, walk.call);
}

/** A `symbol` is also any character that the grammar does not know: the parser says why it is refused. */
export interface Token {
  readonly kind: 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'end';
  /** The name without `#`, the content of a string, the digits of a number, the symbol. */
  readonly text: string;
  /** Offset of the first character. */
  readonly at: number;
}

const name = String.raw`([\p{ID_Start}$_][\p{ID_Continue}$]*)`;

/** In the order of the groups. Of strings as in SpEL: the quote itself is written twice, a backslash is an ordinary character. */
const kinds = ['name', 'variable', 'number', 'string', 'string', 'symbol'] as const;
const pattern = new RegExp(
  [
    String.raw`[\s\u200b\ufeff]+|${name}|#${name}|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`,
    `'((?:[^']|'')*)'(?!')|"((?:[^"]|"")*)"(?!")`,
    String.raw`(===|!==|=>|\?\.|\?:|\?\?|&&|\|\||\*\*|\+\+|--|[=!<>+\-*/%]=|.)`,
  ].join('|'),
  'gsu',
);

/** The last one is the only `end`. */
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

/** What to write in place of what cannot stand where it stands. */
const instead: ReadonlyMap<string, string> = new Map([
  ['=', '== to compare: there is no assignment'],
  ['===', '=='],
  ['!==', '!='],
  ['&', '&&'],
  ['|', '||'],
  ['--', '- -'],
  ["'", "both quotes of '…'"],
  ['"', 'both quotes of "…"'],
  ['`', "'…'"],
  ['#', 'a name behind it, as in #result, and no #{…} around an expression'],
  ['=>', 'a function in place of the text, where the configuration is code'],
  ['between', 'a >= 1 && a <= 9'],
  ['in', 'list.includes(value)'],
]);

function reasonAgainst({ kind, text }: Token, missing: string | undefined): string {
  const other = kind === 'symbol' || kind === 'name' ? instead.get(text) : undefined;
  const hint = other === undefined ? (missing ?? 'expressions only read') : `write ${other}`;
  const found = `"${kind === 'variable' ? '#' : ''}${text}" is not expected here`;
  return `${kind === 'end' ? 'it is not complete' : found}: ${hint}.`;
}

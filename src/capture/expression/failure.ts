import { type ErrorCode, SvcError } from '../../ground/errors.ts';

/** Characters of an expression's text (UTF-16 units). */
export const maxTextLength = 1024;

/** Expressions inside each other: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
export const maxDepth = 24;

/** Each name, property, literal, operator and call of an expression. */
export const maxParts = 256;

/** Elements that the projections and selections of one evaluation may visit, all together. */
export const maxVisitedElements = 10_000;

/** From the first elements that one evaluation visits. Such long work is only met where a list and the values around it are large. */
export const maxEvaluationMs = 1_000;

/** Elements of a list that is searched, joined or cut. Sparse arrays can be far longer than memory, and take as long to go through. */
export const maxListLength = 10_000_000;

/** Characters of a string that `+` or `join` makes, parts that `split` makes: projections could double one without end. */
export const maxMadeLength = 1_048_576;

/** The error of an expression: the text around the place on one line, and a caret below the place. */
export function expressionError(
  ...[code, what, text, offset, reason]: [ErrorCode, 'refused' | 'failed', string, number, string]
): SvcError {
  const from = Math.max(0, offset - 40);
  const head = from > 0 ? '…' : '';
  const tail = offset + 30 < text.length ? '…' : '';
  // A line break or a lone surrogate in the text must not break the two lines.
  const line = text.slice(from, offset + 30).replace(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, ' ');
  const caret = `${' '.repeat(head.length + offset - from)}^`;
  return new SvcError(
    code,
    `Expression ${what} at column ${offset + 1}: ${reason}\n  ${head}${line}${tail}\n  ${caret}`,
  );
}

/** What svc threw itself: whatever else an evaluation throws is the application's, and its message is not passed on. */
const own = new WeakSet<object>();

/** Of what an evaluation reads: it comes through as it is. */
export function ownFailure(failure: SvcError): SvcError {
  own.add(failure);
  return failure;
}

/** Thrown within an evaluation, which adds the place. The reason must not hold a value of the call. */
export class Refusal {
  readonly reason: string;
  readonly code: ErrorCode;

  constructor(reason: string, code: ErrorCode = 'SVC_CAPTURE_EXPRESSION') {
    this.reason = reason;
    this.code = code;
    own.add(this);
  }
}

/** What to throw for what was thrown while a call was read: never the application's error, which may be a Proxy of its own. */
export function failureOf(thrown: unknown, at: (reason: string, code: ErrorCode) => SvcError): unknown {
  if (!own.has(thrown as object))
    return at('what it reads or calls threw an error.', 'SVC_CAPTURE_EXPRESSION');
  return thrown instanceof Refusal ? at(thrown.reason, thrown.code) : thrown;
}

import { type ErrorCode, SvcError } from '../../ground/errors.ts';

const excerptBefore = 40;
const excerptAfter = 30;

/** The text around an offset on one line, and a caret below the offset. */
function excerpt(text: string, offset: number): string {
  const from = offset > excerptBefore ? offset - excerptBefore : 0;
  const to = Math.min(text.length, offset + excerptAfter);
  const head = from > 0 ? '…' : '';
  const tail = to < text.length ? '…' : '';
  // A line break or a lone surrogate in the text must not break the two lines.
  const line = text.slice(from, to).replace(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, ' ');
  return `  ${head}${line}${tail}\n  ${' '.repeat(head.length + offset - from)}^`;
}

/** The error of an expression that is refused before the first call. */
export function refusal(code: ErrorCode, text: string, offset: number, reason: string): SvcError {
  return new SvcError(
    code,
    `Expression refused at column ${offset + 1}: ${reason}\n${excerpt(text, offset)}`,
  );
}

/** Failures that svc made: everything else that an evaluation throws is the application's, and its message is not passed on. */
const ownFailures = new WeakSet<object>();

/** Makes the error of one place of an expression; the reason must not hold a value of the call. */
export type Fail = (reason: string, code?: ErrorCode) => SvcError;

export function failAt(text: string, offset: number): Fail {
  return (reason, code = 'SVC_CAPTURE_EXPRESSION') =>
    ownFailure(
      new SvcError(code, `Expression failed at column ${offset + 1}: ${reason}\n${excerpt(text, offset)}`),
    );
}

/** Of what an evaluation reads: it comes through as it is. */
export function ownFailure(failure: SvcError): SvcError {
  ownFailures.add(failure);
  return failure;
}

export function isOwnFailure(error: unknown): boolean {
  return typeof error === 'object' && error !== null && ownFailures.has(error);
}

/** Characters of an expression's text (UTF-16 units). */
export const maxTextLength = 1024;

/** Expressions inside each other: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
export const maxDepth = 24;

/** Nodes of the syntax tree: each name, property, literal, operator, call. */
export const maxNodes = 256;

/** Elements that the projections and selections of one evaluation may visit, all together. */
export const maxProjectedElements = 10_000;

/** From the first elements that one evaluation visits. Such long work is only met where a list and the values around it are large. */
export const maxEvaluationMs = 1_000;

/** Elements of a list that is searched, joined or cut. Sparse arrays can be far longer than memory, and take as long to go through. */
export const maxListLength = 10_000_000;

/** Characters of a string that an expression makes with `+` or `join`: projections could double one without end. */
export const maxMadeStringLength = 1_048_576;

/** Parts that `split` makes of one string. */
export const maxMadeParts = 1_048_576;

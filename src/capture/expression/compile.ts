// expression/: the language of `payload`, `key` and `when`: text, tokens, function. It can read, and call what is pure.

import { expressionError, failureOf, maxTextLength, maxVisitedElements } from './failure.ts';
import type { Walk } from './operators.ts';
import { Parser } from './parse.ts';
import { isAwaitable, refusedValue } from './read.ts';
import { type ExpressionScope, nameReader, unknownName } from './scope.ts';

export type { ExpressionScope } from './scope.ts';

/** A parsed expression of the read-only language that `docs/expressions.md` describes. */
export interface Expression {
  readonly text: string;
  /** The names that the expression uses, without `#`, in the order of their first use. */
  readonly variables: readonly string[];
  /**
   * Compiles the expression for one function.
   *
   * @param parameterNames the function's parameters in their order, `''` for one without a name (destructured, rest);
   *   `undefined` when nobody knows them: then only `result`, `args`, `self`, `error`, `p0`, `a0`, … have a meaning
   * @returns what evaluates the expression for a call. It may return `undefined`, for a property that is not there. It throws
   *   `SvcError` `SVC_CAPTURE_EXPRESSION`, or `SVC_CAPTURE_EXPRESSION_ASYNC` for a promise; the message holds the text of the
   *   expression and the place, never a value of the call or the message of the application's own error
   * @throws SvcError `SVC_CAPTURE_EXPRESSION_NAME` for a name that means nothing for this function
   */
  bind(parameterNames: readonly string[] | undefined): (call: ExpressionScope) => unknown;
}

/**
 * Parses an expression; everything that is not reading is refused here.
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

// expression/: the language of `payload`, `key` and `when`: text, tokens, tree, function. It can read, and call what is pure.

import { build } from './build.ts';
import { failAt, isOwnFailure, maxProjectedElements, maxTextLength, refusal } from './failure.ts';
import type { Walk } from './operators.ts';
import { parse } from './parse.ts';
import { isAwaitable, refusedValue } from './read.ts';
import { type ExpressionScope, resolveName, unknownName } from './scope.ts';
import { freeNames } from './syntax-tree.ts';

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
    throw refusal('SVC_CAPTURE_EXPRESSION_SYNTAX', text, maxTextLength, reason);
  }
  const tree = parse(text);
  const { names, hasProjections } = freeNames(tree);
  const failWhole = failAt(text, 0);

  return {
    text,
    variables: names,
    bind(parameterNames) {
      const evaluate = build(tree, {
        failAt: (offset) => failAt(text, offset),
        resolve(name, offset) {
          const resolved = resolveName(name, parameterNames);
          if (resolved !== undefined) return resolved;
          throw refusal('SVC_CAPTURE_EXPRESSION_NAME', text, offset, unknownName(name, parameterNames));
        },
      });
      const unused: Walk = { element: undefined, left: 0, startedAt: undefined };
      return (call) => {
        let value: unknown;
        let mustWait: boolean;
        try {
          value = evaluate(
            call,
            hasProjections
              ? { element: undefined, left: maxProjectedElements, startedAt: undefined }
              : unused,
          );
          mustWait = typeof value === 'object' && isAwaitable(value);
        } catch (error) {
          // Not only ours: a Proxy of the application can throw wherever it is touched.
          throw isOwnFailure(error) ? error : failWhole('the application code that it reads threw an error.');
        }
        if (mustWait) throw refusedValue(failWhole, value);
        return value;
      };
    },
  };
}

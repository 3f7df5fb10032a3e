// expression/: the language of `payload`, `key` and `when`: text, tokens, function. It can read, and call what is pure.

import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import { fitsOutboxText, longestOutboxText } from '../../ground/event-fields.ts';
import { Parser } from './parse.ts';
import {
  callOwn,
  type ExpressionScope,
  expressionError,
  failureOf,
  isAwaitable,
  maxTextLength,
  maxVisitedElements,
  nameReader,
  refusedValue,
  unknownName,
  usable,
  type Walk,
} from './values.ts';

export type { ExpressionScope } from './values.ts';

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

/** A function in place of an expression. It gets the arguments, the result, `this` and the error of the call. */
export type Selector = (scope: ExpressionScope) => unknown;

export interface PayloadSpec {
  /** An expression, or a function. */
  readonly payload?: string | Selector | undefined;
  /** -1 (default): what the function returned; 0, 1, …: that argument. Not looked at where there is a `payload`. */
  readonly payloadIndex?: number | undefined;
}

/**
 * What takes the payload out of a call. It may return `undefined` or `null`, where that is what was selected.
 *
 * @param parameterNames as for {@link parseExpression}
 * @throws SvcError when the expression or the index cannot be used; the returned function throws `SvcError` when the call
 *   does not have what is asked for (`SVC_CAPTURE_EXPRESSION`, `SVC_CAPTURE_EXPRESSION_ASYNC`, `SVC_CAPTURE_PAYLOAD_INDEX`)
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
 * What takes the key of the record out of a call: the text of a string, number, bigint or boolean. Anything else is a failure
 * (`SVC_CAPTURE_EXPRESSION`), null and undefined included.
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
 * What takes the id of the aggregate out of a call, as {@link keySelector} does the key. One that is empty, or that there is not,
 * is a failure as well (`SVC_OUTBOX_AGGREGATE_ID`): its events would have no order, and nothing to be found by.
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
    const says = `${placeOf(spec, 'aggregateId')} gave ${found ?? other}; the id of an aggregate is a text that is not empty, a number or a boolean.`;
    throw new SvcError('SVC_OUTBOX_AGGREGATE_ID', says);
  };
}

function placeOf(spec: string | Selector, name: string): string {
  return typeof spec === 'string' ? `The ${name} expression "${spec}"` : `The ${name} function`;
}

/** The text of a value that a key can be; else what it is. */
function asText(value: unknown): { readonly text?: string; readonly found?: string } {
  const type = typeof value;
  if (type === 'string') return { text: value as string };
  if ((type === 'bigint' && !isTooBig(value as bigint)) || type === 'boolean' || Number.isFinite(value))
    return { text: String(value) };
  if (value === null || value === undefined) return { found: String(value) };
  return { found: type === 'object' ? 'an object' : 'no number' };
}

/** Whether a call is meant. Any value counts as in a condition; a promise is a failure, not a yes. */
export function whenSelector(
  spec: string | Selector,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => boolean {
  const select = selector(spec, 'when', parameterNames);
  return (call) => Boolean(select(call));
}

/** Evaluates an expression, or calls the function in its place with what expressions see. */
export function selector(
  spec: string | Selector,
  name: string,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  if (typeof spec === 'string') return parseExpression(spec).bind(parameterNames);
  return (call) => {
    let refusal: unknown;
    // Only what is promised: not the rest of svc's own record of the call.
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
    // Whatever the function made of it.
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

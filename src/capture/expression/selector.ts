import { isTooBig } from '../../ground/bounds.ts';
import { SvcError } from '../../ground/errors.ts';
import { fitsOutboxText, longestOutboxText } from '../../ground/event-fields.ts';
import { parseExpression } from './compile.ts';
import { failureOf } from './failure.ts';
import { callOwn, usable } from './read.ts';
import type { ExpressionScope } from './scope.ts';

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

import { isDate } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { type Fail, maxMadeStringLength } from './failure.ts';
import type { ExpressionScope } from './scope.ts';
import type { BinaryOperator } from './syntax-tree.ts';

/** Values that `==` finds equal: null and undefined are one, dates and numbers of both kinds count by value, objects by identity. */
function areEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (isMissing(left) || isMissing(right)) return isMissing(left) && isMissing(right);
  if (typeof left === 'object') return isDate(left) && isDate(right) && timeOf(left) === timeOf(right);
  return isNumeric(left) && isNumeric(right) && compare(left, right) === 0;
}

/** Negative, 0 or positive; `undefined` where the two have no order. */
function compare(left: unknown, right: unknown): number | undefined {
  if (typeof left === 'object' && isDate(left) && isDate(right)) return compare(timeOf(left), timeOf(right));
  if ((typeof left === 'string' && typeof right === 'string') || (isNumeric(left) && isNumeric(right))) {
    if (left < right) return -1;
    if (left > right) return 1;
    // Of NaN nothing holds.
    return left >= right ? 0 : undefined;
  }
  return undefined;
}

/** A sum of numbers or a text; `undefined` where `+` has no meaning. Never the text "null" or "[object Object]". */
function add(left: unknown, right: unknown): string | number | bigint | undefined {
  if (typeof left !== 'string' && typeof right !== 'string') return calculate('+', left, right);
  if (!isText(left) || !isText(right)) return undefined;
  const text = `${left}${right}`;
  return text.length > maxMadeStringLength ? undefined : text;
}

/** `undefined` where the operands are not two numbers or two bigints, or one or the result is not finite or too big. */
function calculate(
  operator: '+' | '-' | '*' | '/' | '%',
  left: unknown,
  right: unknown,
): number | bigint | undefined {
  if (typeof left === 'number' && typeof right === 'number') {
    const result = ofNumbers(operator, left, right);
    return Number.isFinite(result) ? result : undefined;
  }
  if (typeof left !== 'bigint' || typeof right !== 'bigint' || isTooBig(left) || isTooBig(right))
    return undefined;
  const result = ofBigints(operator, left, right);
  return result === undefined || isTooBig(result) ? undefined : result;
}

function ofNumbers(operator: '+' | '-' | '*' | '/' | '%', left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      return left / right;
    case '%':
      return left % right;
  }
}

function ofBigints(operator: '+' | '-' | '*' | '/' | '%', left: bigint, right: bigint): bigint | undefined {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      return right === 0n ? undefined : left / right;
    case '%':
      return right === 0n ? undefined : left % right;
  }
}

function isMissing(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

function isNumeric(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

function isText(value: unknown): value is string | number | bigint | boolean {
  return (
    typeof value === 'string' ||
    typeof value === 'boolean' ||
    (typeof value === 'number' && !Number.isNaN(value)) ||
    (typeof value === 'bigint' && !isTooBig(value))
  );
}

/** The application may have replaced `getTime` of its own subclass. */
function timeOf(date: Date): number {
  return Date.prototype.getTime.call(date);
}

/** `&&`, `||`, `!` and conditions take any value as JavaScript does; everything else refuses what has no clear meaning. */
export function binary(fail: Fail, operator: BinaryOperator, left: Evaluate, right: Evaluate): Evaluate {
  switch (operator) {
    case '||':
      return (call, walk) => left(call, walk) || right(call, walk);
    case '&&':
      return (call, walk) => left(call, walk) && right(call, walk);
    case '??':
      return (call, walk) => left(call, walk) ?? right(call, walk);
    case '?:':
      return (call, walk) => {
        const value = left(call, walk);
        return value === null || value === undefined || value === '' ? right(call, walk) : value;
      };
    case '==':
      return (call, walk) => areEqual(left(call, walk), right(call, walk));
    case '!=':
      return (call, walk) => !areEqual(left(call, walk), right(call, walk));
    case '<':
      return comparison(fail, left, right, (order) => order < 0);
    case '<=':
      return comparison(fail, left, right, (order) => order <= 0);
    case '>':
      return comparison(fail, left, right, (order) => order > 0);
    case '>=':
      return comparison(fail, left, right, (order) => order >= 0);
    case '+':
      return (call, walk) => made(fail, add(left(call, walk), right(call, walk)));
    default:
      return (call, walk) => made(fail, calculate(operator, left(call, walk), right(call, walk)));
  }
}

export function negate(fail: Fail, operand: Evaluate): Evaluate {
  return (call, walk) => {
    const value = operand(call, walk);
    if (typeof value === 'number' || typeof value === 'bigint') return -value;
    throw fail('the value is not a number.');
  };
}

function comparison(
  fail: Fail,
  left: Evaluate,
  right: Evaluate,
  holds: (order: number) => boolean,
): Evaluate {
  return (call, walk) => {
    const order = compare(left(call, walk), right(call, walk));
    if (order === undefined)
      throw fail('the two values have no order: compare two numbers, two strings or two dates.');
    return holds(order);
  };
}

function made(fail: Fail, value: string | number | bigint | undefined): string | number | bigint {
  if (value !== undefined) return value;
  throw fail('the operator cannot be used on these two values, or its result is too large.');
}

/** State of one evaluation with projections or selections: the element at hand, and how many more may be visited. */
export interface Walk {
  element: unknown;
  left: number;
  /** Milliseconds of a clock that never steps, when it was first looked at. */
  startedAt: number | undefined;
}

/** A compiled node. */
export type Evaluate = (call: ExpressionScope, walk: Walk) => unknown;

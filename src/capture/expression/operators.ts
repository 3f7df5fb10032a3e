import { isDate } from 'node:util/types';
import { isTooBig } from '../../big-int-limit.ts';
import { maxMadeStringLength } from './limits.ts';

/** Values that `==` finds equal: null and undefined are one, dates and numbers of both kinds count by value, objects by identity. */
export function areEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (isMissing(left) || isMissing(right)) return isMissing(left) && isMissing(right);
  if (typeof left === 'object') return isDate(left) && isDate(right) && timeOf(left) === timeOf(right);
  return isNumeric(left) && isNumeric(right) && compare(left, right) === 0;
}

/** Negative, 0 or positive; `undefined` where the two have no order. */
export function compare(left: unknown, right: unknown): number | undefined {
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
export function add(left: unknown, right: unknown): string | number | bigint | undefined {
  if (typeof left !== 'string' && typeof right !== 'string') return calculate('+', left, right);
  if (!isText(left) || !isText(right)) return undefined;
  const text = `${left}${right}`;
  return text.length > maxMadeStringLength ? undefined : text;
}

/** `undefined` where the operands are not two numbers or two bigints, or one or the result is not finite or too big. */
export function calculate(
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

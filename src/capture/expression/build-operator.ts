import type { Evaluate } from './evaluate.ts';
import type { Fail } from './failure.ts';
import { add, areEqual, calculate, compare } from './operators.ts';
import type { BinaryOperator } from './syntax-tree.ts';

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

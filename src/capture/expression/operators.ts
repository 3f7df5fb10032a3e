import { isDate } from 'node:util/types';
import { isTooBig } from '../../ground/bounds.ts';
import { maxMadeLength, Refusal } from './failure.ts';
import { isPlain } from './read.ts';
import type { ExpressionScope } from './scope.ts';

/** State of one evaluation. */
export interface Walk {
  readonly call: ExpressionScope;
  /** What gives the value of each name, in the order of their first use. */
  readonly names: readonly ((call: ExpressionScope) => unknown)[];
  /** Offset of what is done now: a failure points there. */
  at: number;
  /** The element at hand of a projection or selection, and how many more may be visited. */
  element: unknown;
  left: number;
  /** Milliseconds of a clock that never steps, when it was first looked at. */
  startedAt: number | undefined;
}

/** A compiled part of an expression. */
export type Evaluate = (walk: Walk) => unknown;

type Make = (left: Evaluate, right: Evaluate, at: number) => Evaluate;

/** Of the values of both sides; `undefined` where the operator has no meaning for them. */
function ofBoth(apply: (left: unknown, right: unknown) => unknown): Make {
  return (left, right, at) => (walk) => {
    const first = left(walk);
    const second = right(walk);
    walk.at = at;
    return made(apply(first, second));
  };
}

function made(value: unknown): unknown {
  if (value !== undefined) return value;
  throw new Refusal('the operator does not fit these values, or its result is too large.');
}

function isNumeric(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

/** NaN or an infinite number: no operator makes one, or a text of one. */
function isNotFinite(value: unknown): boolean {
  return typeof value === 'number' && !Number.isFinite(value);
}

/** null and undefined are one, dates and numbers of both kinds count by value, objects by identity. */
function areEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  const areDates = typeof left === 'object' && isDate(left) && isDate(right);
  if (areDates || (isNumeric(left) && isNumeric(right))) return compare(left, right) === 0;
  return (left ?? null) === (right ?? null);
}

/** Negative, 0 or positive; `undefined` where the two have no order, as NaN has none. */
function compare(left: unknown, right: unknown): number | undefined {
  // The application may have replaced `getTime` of its own subclass.
  if (typeof left === 'object' && isDate(left) && isDate(right))
    return compare(Date.prototype.getTime.call(left), Date.prototype.getTime.call(right));
  if ((typeof left === 'string' && typeof right === 'string') || (isNumeric(left) && isNumeric(right))) {
    if (left < right) return -1;
    if (left > right) return 1;
    return left >= right ? 0 : undefined;
  }
  return undefined;
}

function ordered(holds: (order: number) => boolean): Make {
  return ofBoth((left, right) => {
    const order = compare(left, right);
    return order === undefined ? undefined : holds(order);
  });
}

/** Of two numbers or two bigints, which have the same operators. */
function calculated(apply: (left: number, right: number) => number) {
  return (left: unknown, right: unknown): unknown => {
    if (typeof left === 'number' && typeof right === 'number') {
      const result = apply(left, right);
      return isNotFinite(result) ? undefined : result;
    }
    if (typeof left !== 'bigint' || typeof right !== 'bigint' || isTooBig(left) || isTooBig(right))
      return undefined;
    const result: unknown = apply(left as never, right as never);
    return isTooBig(result as bigint) ? undefined : result;
  };
}

const sum = calculated((left, right) => left + right);

/** A sum of numbers or a text: never "null", "NaN", "Infinity" or "[object Object]". */
function add(left: unknown, right: unknown): unknown {
  if (typeof left !== 'string' && typeof right !== 'string') return sum(left, right);
  for (const part of [left, right])
    if ((part ?? null) === null || !isPlain(part) || isNotFinite(part)) return undefined;
  const text = `${left}${right}`;
  return text.length > maxMadeLength ? undefined : text;
}

export function negate(operand: Evaluate, at: number): Evaluate {
  return (walk) => {
    const value = operand(walk);
    walk.at = at;
    return made(isNumeric(value) && !isNotFinite(value) ? -value : undefined);
  };
}

/**
 * By their signs and SpEL's words for them, loosest first. `&&`, `||` and conditions take any value as JavaScript does; all others
 * refuse what has no clear meaning.
 */
const levels: readonly Readonly<Record<string, Make>>[] = [
  { '??': (left, right) => (walk) => left(walk) ?? right(walk) },
  { '|| or': (left, right) => (walk) => left(walk) || right(walk) },
  { '&& and': (left, right) => (walk) => left(walk) && right(walk) },
  { '== eq': ofBoth(areEqual), '!= ne': ofBoth((left, right) => !areEqual(left, right)) },
  {
    '< lt': ordered((order) => order < 0),
    '<= le': ordered((order) => order <= 0),
    '> gt': ordered((order) => order > 0),
    '>= ge': ordered((order) => order >= 0),
  },
  { '+': ofBoth(add), '-': ofBoth(calculated((left, right) => left - right)) },
  {
    '*': ofBoth(calculated((left, right) => left * right)),
    '/ div': ofBoth(calculated((left, right) => left / right)),
    '% mod': ofBoth(calculated((left, right) => left % right)),
  },
];

/** Binary operators by their text; a higher level binds tighter. */
export const operators: ReadonlyMap<string, { readonly level: number; readonly make: Make }> = new Map(
  levels.flatMap((of, level) =>
    Object.entries(of).flatMap(([names, make]) =>
      names.split(' ').map((name) => [name, { level, make }] as const),
    ),
  ),
);

import type { ObjectExpression, ObjectProperty } from 'oxc-parser';
import { didYouMean } from '../../../ground/nearest-names.ts';
import { behindGetter, type Problem } from '../wrapper-place.ts';
import { type AnyFunction, core, isFunction, keyOf } from './syntax.ts';

export interface ObjectMember {
  readonly shown: AnyFunction | undefined;
  /** The property only hands on this local name: `{ create }`, `{ create: createOrder }`. */
  readonly local: string | undefined;
  /** How many steps of the path lead to `local`. */
  readonly depth: number;
}

const unknown: ObjectMember = { shown: undefined, local: undefined, depth: 0 };

/** Follows a path through the text of an object. What the text cannot tell (spreads, computed names) is left to run time. */
export function findInObject(
  object: ObjectExpression,
  name: string,
  path: readonly string[],
  depth = 0,
): ObjectMember | Problem | { readonly missing: string } {
  const key = path[depth];
  if (key === undefined) return unknown;
  const full = `${name}.${path.slice(0, depth + 1).join('.')}`;
  // The last one counts, as it does in JavaScript.
  const property = object.properties.findLast((each) => named(each) === key) as ObjectProperty | undefined;
  if (!property) {
    const isOpen = object.properties.some((each) => named(each) === undefined);
    return isOpen
      ? unknown
      : { missing: `no ${full} in this file${didYouMean(full, objectPaths(object, name))}` };
  }
  if (property.kind !== 'init') {
    const behind = path.slice(depth + 1).join('.');
    return {
      problem: behind === '' ? `${full} is a ${property.kind}ter, not a method` : behindGetter(full, behind),
    };
  }
  const value = core(property.value);
  const isLast = depth === path.length - 1;
  if (isFunction(value)) return isLast ? { shown: value, local: undefined, depth: depth + 1 } : unknown;
  if (value.type === 'Identifier') return { shown: undefined, local: value.name, depth: depth + 1 };
  if (value.type === 'ObjectExpression' && !isLast) return findInObject(value, name, path, depth + 1);
  const what = neverAFunction(value.type);
  return what ? { problem: `${full} is not a function but ${what}` } : unknown;
}

/** The path as the keys of the object have it: `orders.create` may be one of them. */
export function keysIn(object: ObjectExpression, path: readonly string[]): string[] {
  const [first, ...rest] = path;
  if (first === undefined) return [];
  const keys = object.properties.map(named);
  for (let length = keys.includes(first) ? 1 : path.length; length > 0; length--) {
    const key = path.slice(0, length).join('.');
    if (!keys.includes(key)) continue;
    const value = valueUnder(object, key);
    const others = path.slice(length);
    return [key, ...(value?.type === 'ObjectExpression' ? keysIn(value, others) : others)];
  }
  return [first, ...rest];
}

function valueUnder(object: ObjectExpression, key: string): ReturnType<typeof core> | undefined {
  const property = object.properties.findLast((each) => named(each) === key);
  return property?.type === 'Property' ? core(property.value) : undefined;
}

/** What a target could name in an object literal. */
export function objectPaths(object: ObjectExpression, name: string): string[] {
  return object.properties.flatMap((property) => {
    const key = named(property);
    return key === undefined ? [] : [`${name}.${key}`];
  });
}

/** What an expression of this kind is, when it cannot be a function. */
export function neverAFunction(type: string): string | undefined {
  return things.get(type);
}

const things = new Map([
  ['Literal', 'a plain value'],
  ['TemplateLiteral', 'a string'],
  ['ArrayExpression', 'an array'],
  ['ObjectExpression', 'an object'],
  ['UnaryExpression', 'a plain value'],
  ['BinaryExpression', 'a plain value'],
  ['UpdateExpression', 'a number'],
]);

/** `undefined` where the text does not tell: spreads, computed names, and `__proto__: base`, which brings names of its own. */
function named(property: ObjectExpression['properties'][number]): string | undefined {
  const key = property.type === 'Property' ? keyOf(property.key, property.computed) : undefined;
  return key === '__proto__' ? undefined : key;
}

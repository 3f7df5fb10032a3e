import { isMap, isSet, isTypedArray } from 'node:util/types';
import type { Evaluate, Walk } from './evaluate.ts';
import type { Fail } from './failure.ts';
import { maxEvaluationMs, maxProjectedElements } from './limits.ts';
import { isUsable, refusedValue } from './read.ts';

/** Looking at the clock takes as long as reading a few properties. */
const elementsBetweenLooks = 8;

type Over = (collection: unknown, ...of: Parameters<Evaluate>) => unknown;

/** `list.![body]`: the body of each element, in a list. */
export function project(fail: Fail, body: Evaluate): Over {
  return (collection, call, walk) => {
    const values: unknown[] = [];
    visit(fail, collection, walk, () => {
      values.push(body(call, walk));
    });
    return values;
  };
}

/** `list.?[body]`: the elements whose body holds, in a list; of a map, the entries, in a map. */
export function select(fail: Fail, body: Evaluate): Over {
  return (collection, call, walk) => {
    if (isMap(collection)) {
      const entries = new Map<unknown, unknown>();
      visit(fail, collection, walk, (entry) => {
        const { key, value } = entry as { key: unknown; value: unknown };
        if (body(call, walk)) entries.set(key, value);
      });
      return entries;
    }
    const values: unknown[] = [];
    visit(fail, collection, walk, (element) => {
      if (body(call, walk)) values.push(element);
    });
    return values;
  };
}

function lookAtClock(fail: Fail, walk: Walk): void {
  const now = performance.now();
  walk.startedAt ??= now;
  if (now - walk.startedAt > maxEvaluationMs)
    throw fail(`going through the elements took longer than ${maxEvaluationMs} ms.`);
}

/** Shows each element to `each`, with `walk.element` set to it. The elements of a map are `{ key, value }`. */
function visit(fail: Fail, collection: unknown, walk: Walk, each: (element: unknown) => void): void {
  const outer = walk.element;
  const enter = (element: unknown): void => {
    if (walk.left === 0) throw fail(`more than ${maxProjectedElements} elements were visited.`);
    walk.left -= 1;
    if (walk.left % elementsBetweenLooks === 0) lookAtClock(fail, walk);
    if (!isUsable(element)) throw refusedValue(fail, element);
    walk.element = element;
    each(element);
  };
  if (Array.isArray(collection) || isTypedArray(collection)) {
    const { length } = collection;
    for (let index = 0; index < length; index += 1) enter(collection[index]);
  } else if (isSet(collection)) {
    Set.prototype.forEach.call(collection, enter);
  } else if (isMap(collection)) {
    Map.prototype.forEach.call(collection, (value, key) => {
      if (!isUsable(value)) throw refusedValue(fail, value);
      enter({ key, value });
    });
  } else {
    throw fail(
      `only lists, sets and maps can be gone through${collection == null ? `, and this is ${collection}` : ''}.`,
    );
  }
  walk.element = outer;
}

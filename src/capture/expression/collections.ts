import { isMap, isSet, isTypedArray } from 'node:util/types';
import { systemClock } from '../../ground/clock.ts';
import { maxEvaluationMs, maxVisitedElements, Refusal } from './failure.ts';
import type { Evaluate, Walk } from './operators.ts';
import { usable } from './read.ts';

/** Looking at the clock takes as long as reading a few properties. */
const elementsBetweenLooks = 8;

export function makeList(items: readonly Evaluate[]): (walk: Walk) => unknown[] {
  return (walk) => {
    const values: unknown[] = [];
    for (const item of items) values.push(item(walk));
    return values;
  };
}

export function makeMap(of: ReadonlyMap<string, Evaluate>): Evaluate {
  const keys = [...of.keys()];
  const values = [...of.values()];
  // Copying an object that has all keys already is faster than adding them one by one, and no setter that somebody put on
  // Object.prototype is ever run.
  const empty: Record<string, unknown> = Object.fromEntries(keys.map((key) => [key, undefined]));
  return (walk) => {
    const made = { ...empty };
    for (let index = 0; index < keys.length; index += 1)
      made[keys[index] as string] = (values[index] as Evaluate)(walk);
    return made;
  };
}

/** `list.![body]`: the body of each element, in a list. */
export function project(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
  return (collection, walk) => {
    const values: unknown[] = [];
    visit(collection, walk, () => values.push(body(walk)));
    return values;
  };
}

/** `list.?[body]`: the elements whose body holds, in a list; of a map, the entries, in a map. */
export function select(body: Evaluate): (collection: unknown, walk: Walk) => unknown {
  return (collection, walk) => {
    const values: unknown[] = [];
    visit(collection, walk, (element) => {
      if (body(walk)) values.push(element);
    });
    if (!isMap(collection)) return values;
    return new Map((values as { key: unknown; value: unknown }[]).map(({ key, value }) => [key, value]));
  };
}

/** Shows each element to `each`, with `walk.element` set to it. The elements of a map are `{ key, value }`. */
function visit(collection: unknown, walk: Walk, each: (element: unknown) => void): void {
  const { at, element: outer } = walk;
  const enter = (element: unknown): void => {
    walk.at = at;
    if (walk.left === 0) throw new Refusal(`more than ${maxVisitedElements} elements were visited.`);
    walk.left -= 1;
    if (walk.left % elementsBetweenLooks === 0) lookAtClock(walk);
    walk.element = usable(element);
    each(element);
  };
  if (Array.isArray(collection) || isTypedArray(collection)) {
    const { length } = collection;
    for (let index = 0; index < length; index += 1) enter(collection[index]);
  } else if (isSet(collection)) {
    Set.prototype.forEach.call(collection, enter);
  } else if (isMap(collection)) {
    Map.prototype.forEach.call(collection, (value, key) => enter({ key, value: usable(value) }));
  } else {
    throw new Refusal('only lists, sets and maps can be gone through.');
  }
  walk.element = outer;
}

function lookAtClock(walk: Walk): void {
  const now = systemClock.monotonic();
  walk.startedAt ??= now;
  if (now - walk.startedAt > maxEvaluationMs)
    throw new Refusal(`going through the elements took longer than ${maxEvaluationMs} ms.`);
}

import { types } from 'node:util';
import { type Budget, textOfBigInt, tooLarge } from './budget.ts';
import { hasToJson } from './kind.ts';
import { isRefusal, refusal } from './refusal.ts';

/** Whatever could be copied out of an object: its values, and what its `toJSON` returns. */
export function partsOf(value: object, budget: Budget): readonly unknown[] {
  const parts = attempt(() => readParts(value, budget)) ?? [];
  budget.spend(parts.length);
  return parts;
}

function readParts(value: object, budget: Budget): readonly unknown[] {
  if (types.isMap(value)) return listOfSet(value.values(), budget);
  if (types.isSet(value)) return listOfSet(value, budget);
  if (types.isStringObject(value) || types.isNumberObject(value)) return [value.valueOf()];
  if (ArrayBuffer.isView(value)) return [];
  const count = Array.isArray(value) ? value.length : countKeys(value, budget.left);
  if (count > budget.left) throw tooLarge();
  return [...Object.values(value), hasToJson(value) ? value.toJSON('') : undefined];
}

/** A getter that throws hides nothing: what `toJSON` makes of it, it made without. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isRefusal(error)) throw error;
    return undefined;
  }
}

/**
 * What a `Map` is published as. Throws `SVC_PROTECT_UNSUPPORTED_TYPE` for keys that no JSON has, `SVC_PROTECT_TOO_LARGE` for more
 * entries than may be read, of which a class with its own iterator may have any number.
 */
export function objectOfMap(map: ReadonlyMap<unknown, unknown>, { left }: Budget): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  let entries = 0;
  for (const [key, value] of map) {
    if (++entries > left) throw tooLarge();
    if (typeof key === 'object' || typeof key === 'symbol' || typeof key === 'function') {
      throw refusal(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds a Map whose keys are objects, which has no JSON form',
      );
    }
    define(object, typeof key === 'bigint' ? textOfBigInt(key) : String(key), value);
  }
  return object;
}

/** What a `Set` is published as. Throws `SVC_PROTECT_TOO_LARGE` for more values than may be read. */
export function listOfSet(set: Iterable<unknown>, { left }: Budget): unknown[] {
  const list: unknown[] = [];
  for (const value of set) {
    if (list.length === left) throw tooLarge();
    list.push(value);
  }
  return list;
}

/** What an object owns now, read once. Engines keep the keys of small objects at hand, so that counting them first is free. */
export function copyOf(object: Record<string, unknown>, { left }: Budget): Record<string, unknown> {
  if (countKeys(object, left) > left) throw tooLarge();
  return { ...object };
}

/** How many keys an object has, or one more than `most`. Copying one of millions of keys takes seconds, counting them less. */
function countKeys(object: object, most: number): number {
  let count = 0;
  for (const _ in object) if (++count > most) break;
  return count;
}

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

import { types } from 'node:util';
import { type Budget, tooLarge } from './budget.ts';
import { countKeys, listOfSet } from './collections.ts';
import { hasToJson } from './kind.ts';
import { isRefusal } from './refusal.ts';

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

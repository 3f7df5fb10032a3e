import { refusal, tooLarge } from './refusal.ts';

/**
 * What a `Map` is published as. Throws `SVC_PROTECT_UNSUPPORTED_TYPE` for keys that no JSON has, `SVC_PROTECT_TOO_LARGE` for more
 * than `most` entries, of which a class with its own iterator may have any number.
 */
export function objectOfMap(map: ReadonlyMap<unknown, unknown>, most: number): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  let entries = 0;
  for (const [key, value] of map) {
    if (++entries > most) throw tooLarge(most);
    if (typeof key === 'object' || typeof key === 'symbol' || typeof key === 'function') {
      throw refusal(
        'SVC_PROTECT_UNSUPPORTED_TYPE',
        'the payload holds a Map whose keys are objects, which has no JSON form',
      );
    }
    define(object, String(key), value);
  }
  return object;
}

/** What a `Set` is published as. Throws `SVC_PROTECT_TOO_LARGE` for more than `most` values. */
export function listOfSet(set: ReadonlySet<unknown>, most: number): unknown[] {
  const list: unknown[] = [];
  for (const value of set) {
    if (list.length === most) throw tooLarge(most);
    list.push(value);
  }
  return list;
}

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

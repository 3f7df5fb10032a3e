import { refusal } from './refusal.ts';

/** What a `Map` is published as. Throws `SVC_PROTECT_UNSUPPORTED_TYPE` for keys that no JSON has. */
export function objectOfMap(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [key, value] of map) {
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

function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

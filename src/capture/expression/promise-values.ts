import { isPromise } from 'node:util/types';

/** True for promises and for other thenables, which are never called: a lazy one would run its query. */
export function isAwaitable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function';
}

/** Takes note of the rejection of a promise that an evaluation made and nobody will await: else it would end the process. */
export function silence(value: unknown): void {
  if (!isPromise(value)) return;
  try {
    Promise.prototype.then.call(value, undefined, () => {});
  } catch {
    // A subclass whose constructor throws: there is nothing to attach to.
  }
}

/** The same for a property that was read: a getter makes its promise, but a stored one is the application's to handle. */
export function silenceIfMadeByGetter(target: unknown, name: PropertyKey, value: unknown): void {
  if (typeof target !== 'object') return;
  let owner: object | null = target;
  while (owner !== null) {
    const property = Object.getOwnPropertyDescriptor(owner, name);
    if (property?.get !== undefined) silence(value);
    if (property !== undefined) return;
    owner = Object.getPrototypeOf(owner);
  }
}

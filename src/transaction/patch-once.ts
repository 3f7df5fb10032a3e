import { shared } from '../ground/lifecycle.ts';

const patched = shared('patched-drivers', () => new WeakSet<object>());

const bound = shared('bound-drivers', () => new WeakSet<object>());

/** As `patchOnce`, where only callbacks are bound: what is followed later is patched all the same. */
export function bindOnce(prototype: object, bind: () => void): void {
  if (bound.has(prototype) || isPatched(prototype)) return;
  bind();
  bound.add(prototype);
}

/** By any copy of svc. */
export function isPatched(prototype: object): boolean {
  return patched.has(prototype);
}

/** Once per process, however many copies of svc ask for it. What throws was not patched. */
export function patchOnce(prototype: object, patch: () => void): void {
  if (isPatched(prototype)) return;
  patch();
  patched.add(prototype);
}

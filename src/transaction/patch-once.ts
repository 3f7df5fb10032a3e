import { shared } from '../ground/lifecycle.ts';

const patched = shared('patched-drivers', () => new WeakSet<object>());

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

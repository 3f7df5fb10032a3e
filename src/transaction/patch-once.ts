import { shared } from '../ground/lifecycle.ts';

const patched = shared('patched-drivers', () => new WeakSet<object>());

/** Once per process, however many copies of svc ask for it. What throws was not patched. */
export function patchOnce(prototype: object, patch: () => void): void {
  if (patched.has(prototype)) return;
  patch();
  patched.add(prototype);
}

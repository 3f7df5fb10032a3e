import { shared } from '../ground/lifecycle.ts';

// biome-ignore lint/suspicious/noExplicitAny: a method of any class
type Method = (this: any, ...args: any[]) => any;

/** Marks on a function that instrumentations have wrapped (OpenTelemetry's, for example): the convention of `shimmer`. */
interface Wrapped extends Method {
  readonly __wrapped?: unknown;
  readonly __original?: unknown;
  readonly __unwrap?: unknown;
}

/**
 * Replaces a method. `behind` returns the current method behind the replacement. Instrumentations may wrap a method again, for
 * each file of a package and for each module system. They first remove their earlier wrapper, which they find by its marks. If
 * ours hid the marks, both wrappers would stay, and each call would make two spans. So ours exposes the marks of the method
 * behind it.
 */
export function patchMethod<Owner, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  make: (behind: () => Owner[Name] & Method) => Owner[Name] & Method,
): void {
  let inner = owner[name] as Owner[Name] & Method & Wrapped;
  const replacement = make(() => inner);
  const unwrap = (): void => {
    if (isWrapped(inner)) inner = inner.__original as typeof inner;
  };
  Object.defineProperties(replacement, {
    name: { value: inner.name, configurable: true },
    length: { value: inner.length, configurable: true },
    __wrapped: { get: () => inner.__wrapped, configurable: true },
    __original: { get: () => inner.__original, configurable: true },
    __unwrap: { get: () => (isWrapped(inner) ? unwrap : undefined), configurable: true },
  });
  owner[name] = replacement;
}

/** The bare method, for svc's own calls, which must not appear in spans and durations. */
export function withoutWrappers<F extends Method>(method: F): F {
  let found: Wrapped = method;
  while (isWrapped(found)) found = found.__original as Wrapped;
  return found as F;
}

function isWrapped(method: Wrapped): boolean {
  return (
    method.__wrapped === true &&
    typeof method.__original === 'function' &&
    typeof method.__unwrap === 'function'
  );
}

const patched = shared('patched-drivers', () => new WeakSet<object>());

const bound = shared('bound-drivers', () => new WeakSet<object>());

/** Like `patchOnce`, for callbacks only: a later `patchOnce` still patches. */
export function bindOnce(prototype: object, bind: () => void): void {
  if (bound.has(prototype) || isPatched(prototype)) return;
  bind();
  bound.add(prototype);
}

/** By any copy of svc. */
export function isPatched(prototype: object): boolean {
  return patched.has(prototype);
}

/** Once per process, across all copies of svc. If `patch` throws, it counts as not patched. */
export function patchOnce(prototype: object, patch: () => void): void {
  if (isPatched(prototype)) return;
  patch();
  patched.add(prototype);
}

/**
 * Throws if a method that svc calls or replaces is missing. Call it before anything is patched, so that an unsupported version
 * of a package stays unchanged. `methods` are paths to functions: `Client.prototype.query`.
 */
export function assertShape(given: unknown, methods: readonly string[]): void {
  for (const path of methods) {
    let found: unknown = given;
    for (const name of path.split('.')) found = (found as Record<string, unknown> | null | undefined)?.[name];
    if (typeof found !== 'function')
      throw new Error(`it has no ${path}(), unlike the versions that svc knows`);
  }
}

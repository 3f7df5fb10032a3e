// biome-ignore lint/suspicious/noExplicitAny: a method of any class
type Method = (this: any, ...args: any[]) => any;

/** What instrumentations put on a function that they have wrapped, OpenTelemetry's among them: the convention of `shimmer`. */
interface Wrapped extends Method {
  readonly __wrapped?: unknown;
  readonly __original?: unknown;
  readonly __unwrap?: unknown;
}

/**
 * Puts a method in the place of another. `behind` gives the one behind it, whenever it is asked: an instrumentation that wraps the
 * method once more, as for each file of a package and for each module system, takes its first wrapper away before. It looks for its
 * marks, and does not find them where ours is in front: then both would stay, and each call make two spans. So ours shows those of
 * what is behind it.
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

/** The method itself: for what svc does with it on its own account, which is in nobody's spans and durations. */
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

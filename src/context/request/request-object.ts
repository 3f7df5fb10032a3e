import type { ContextScope } from '../context-store.ts';

/**
 * The request as the application sees it: for HTTP/2 the compatibility request, which Node keeps on the stream, as long as
 * that is open, under a symbol without a public name. `undefined` outside a request.
 */
export function requestObject(scope: ContextScope | undefined): object | undefined {
  const request = scope?.request ?? undefined;
  if (scope === undefined || request === undefined || !('pushAllowed' in request)) return request;
  scope.compatible ??= compatibleRequest(request);
  return scope.compatible ?? request;
}

function compatibleRequest(stream: object): object | undefined {
  for (const symbol of Object.getOwnPropertySymbols(stream)) {
    if (symbol.description !== 'request') continue;
    const found = (stream as Record<symbol, unknown>)[symbol];
    if (typeof found === 'object' && found !== null) return found;
  }
  return undefined;
}

/** Reads `user.id` of an object: `undefined` when any step is missing, throws, or is a name that every object has. */
export function readPath(from: object, names: readonly string[]): unknown {
  let value: unknown = from;
  try {
    for (const name of names) {
      if (typeof value !== 'object' || value === null || name in Object.prototype) return undefined;
      value = (value as Record<string, unknown>)[name];
    }
  } catch {
    return undefined;
  }
  return value;
}

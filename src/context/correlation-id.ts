import { nodeCrypto } from '../ground/builtins.ts';
import type { ContextOptions } from './context-options.ts';
import type { ContextScope } from './context-store.ts';
import { headerValue, toHeaderName } from './request/header-value.ts';

export const defaultCorrelationHeaders: readonly string[] = ['x-correlation-id', 'x-request-id'];

/** Reads, or makes, the correlation id of a request, once: all its events and its response carry the same one. */
export function createCorrelationReader(options: ContextOptions): (scope: ContextScope) => string | null {
  const names = (options.correlationHeaders ?? defaultCorrelationHeaders).map(toHeaderName);
  const generate = options.generateCorrelationId === true;
  return (scope) => {
    if (scope.correlationId === undefined) scope.correlationId = find(scope);
    return scope.correlationId;
  };

  function find(scope: ContextScope): string | null {
    if (scope.request === null) return null;
    for (const name of names) {
      const value = headerValue(scope, name);
      if (value !== null) return value;
    }
    return generate ? nodeCrypto().randomUUID() : null;
  }
}

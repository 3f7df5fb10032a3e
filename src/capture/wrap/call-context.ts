import { AsyncLocalStorage } from 'node:async_hooks';
import type { Context } from '@opentelemetry/api';
import { otelApi } from '../../observe/otel-api.ts';

export interface CallContext {
  /** `undefined` where nobody registered anything with OpenTelemetry. */
  readonly context: Context | undefined;
  /** Runs a function in the asynchronous context (logging, request, trace) that was there when the call was made. */
  readonly run: <A extends unknown[], R>(fn: (...args: A) => R, ...args: A) => R;
}

/** For results that end somewhere else than where the call was made. Costs about a microsecond: not for promises, which keep it. */
export function inCallContext(): CallContext {
  return { context: otelApi()?.context.active(), run: AsyncLocalStorage.snapshot() };
}

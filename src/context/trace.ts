import type { Context, Span, SpanContext } from '@opentelemetry/api';
import { otelApi } from '../observe/otel-api.ts';
import { type ContextScope, currentStore, type ScopeTrace } from './context-store.ts';
import { printable, rawHeader } from './header-value.ts';
import { randomSpanId, randomTraceId } from './random-ids.ts';
import { maxTraceStateLength, parseTraceparent, zeroSpanId, zeroTraceId } from './traceparent.ts';

export { formatTraceparent } from './traceparent.ts';

/** The ids of one event: what its envelope and the W3C headers of its record say. Never zeros. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly traceFlags: number;
  /** `undefined`: no `tracestate` header. */
  readonly traceState: string | undefined;
}

/**
 * Flags of a trace that begins here without a tracer. Sampled, because most consumers follow their parent: a zero would
 * switch their own tracing off.
 */
const madeTraceFlags = 1;

/**
 * Ids of an event for which there is no span of svc: its own span id is made. The trace is that of the span active in
 * `active` (default: the active context); else that of the request, which continues its `traceparent` header; else a new one.
 */
export function currentTrace(active?: Context): TraceIds {
  const parent = activeSpanContext(active);
  if (parent !== undefined) return under(parent.traceId, parent.spanId, parent.traceFlags, stateOf(parent));
  const scope = currentStore()?.scope;
  if (scope === undefined) return under(randomTraceId(), null, madeTraceFlags, undefined);
  const { traceId, parentSpanId, traceFlags, traceState } = scopeTrace(scope);
  return under(traceId, parentSpanId, traceFlags, traceState);
}

/** Ids of an event that has a span of svc, started under `parent` (see `spanParent`). */
export function spanTrace(span: Span, parent: Context): TraceIds {
  const own = span.spanContext();
  if (!isValid(own)) return currentTrace(parent);
  const above = activeSpanContext(parent);
  return {
    traceId: own.traceId,
    spanId: own.spanId,
    parentSpanId: above !== undefined && above.traceId === own.traceId ? above.spanId : null,
    traceFlags: own.traceFlags,
    traceState: stateOf(own),
  };
}

/**
 * The context to start svc's span under: `active`, and where no instrumentation put a span into it, the caller that the
 * request's `traceparent` header names.
 */
export function spanParent(active: Context): Context {
  const scope = currentStore()?.scope;
  if (scope === undefined || scope.request === null || activeSpanContext(active) !== undefined) return active;
  const { traceId, parentSpanId, traceFlags, traceState } = scopeTrace(scope);
  const api = otelApi();
  if (api === undefined || parentSpanId === null) return active;
  const remote: SpanContext = { traceId, spanId: parentSpanId, traceFlags, isRemote: true };
  if (traceState !== undefined) remote.traceState = api.createTraceState(traceState);
  return api.trace.setSpanContext(active, remote);
}

function activeSpanContext(active: Context | undefined): SpanContext | undefined {
  const api = otelApi();
  if (api === undefined) return undefined;
  const found = api.trace.getSpanContext(active ?? api.context.active());
  return found !== undefined && isValid(found) ? found : undefined;
}

/** What the API's own check says of ids that a tracer made; its two regular expressions cost as much as all the rest. */
function isValid({ traceId, spanId }: SpanContext): boolean {
  return traceId.length === 32 && spanId.length === 16 && traceId !== zeroTraceId && spanId !== zeroSpanId;
}

function scopeTrace(scope: ContextScope): ScopeTrace {
  scope.trace ??= continuedTrace(scope) ?? {
    traceId: randomTraceId(),
    parentSpanId: null,
    traceFlags: madeTraceFlags,
    traceState: undefined,
  };
  return scope.trace;
}

function continuedTrace(scope: ContextScope): ScopeTrace | null {
  const remote = parseTraceparent(rawHeader(scope, 'traceparent'));
  if (remote === null) return null;
  return {
    traceId: remote.traceId,
    parentSpanId: remote.spanId,
    traceFlags: remote.traceFlags,
    traceState: printable(rawHeader(scope, 'tracestate'), maxTraceStateLength) ?? undefined,
  };
}

function under(
  traceId: string,
  parentSpanId: string | null,
  traceFlags: number,
  traceState: string | undefined,
): TraceIds {
  return { traceId, spanId: randomSpanId(), parentSpanId, traceFlags, traceState };
}

function stateOf(span: SpanContext): string | undefined {
  return span.traceState?.serialize() || undefined;
}

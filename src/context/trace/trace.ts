// trace/: ids of the trace that an event belongs to, with an SDK of OpenTelemetry or without.

import type { Context, Span, SpanContext } from '@opentelemetry/api';
import { otelApi } from '../../observe/otel-api.ts';
import { definedFlags } from '../../observe/spans.ts';
import { type ContextScope, currentStore, type ScopeTrace } from '../context-store.ts';
import { printable, rawHeader } from '../request/header-value.ts';

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

/** W3C Trace Context: `00-<trace id>-<span id>-<flags>`; later versions may go on after another dash. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const zeroTraceId: string = '0'.repeat(32);
const zeroSpanId: string = '0'.repeat(16);

/** Longest `tracestate` passed on, in characters: what the W3C asks to support. */
const maxTraceStateLength = 512;

interface RemoteParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

/** `null` for anything that the W3C says to ignore. */
export function parseTraceparent(header: string | null): RemoteParent | null {
  const match = header === null ? null : pattern.exec(header.trim());
  if (match === null) return null;
  const [, version, traceId = '', spanId = '', flags = '', rest] = match;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (traceId === zeroTraceId || spanId === zeroSpanId) return null;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & definedFlags };
}

const words = new Uint32Array(256);
const bytes = Buffer.from(words.buffer);
let text = '';
let used = 0;

/** 32 hexadecimal digits. */
function randomTraceId(): string {
  return randomHex(32);
}

/** 16 hexadecimal digits. */
function randomSpanId(): string {
  return randomHex(16);
}

/** From `Math.random`, as OpenTelemetry's own ids are: an id is no secret, and `node:crypto` takes 8 ms to load. */
function randomHex(digitCount: number): string {
  if (used + digitCount > text.length) {
    // In bulk: making each id on its own costs ten times as much.
    for (let at = 0; at < words.length; at++) words[at] = Math.random() * 2 ** 32;
    text = bytes.toString('hex');
    used = 0;
  }
  used += digitCount;
  return text.slice(used - digitCount, used);
}

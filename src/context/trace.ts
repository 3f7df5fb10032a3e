import type {
  Attributes,
  Context,
  Span,
  SpanContext,
  SpanKind,
  SpanOptions,
  SpanStatusCode,
  Tracer,
  TracerProvider,
} from '@opentelemetry/api';
import { version } from '../ground/version.ts';
import { hasDelegate, otelApi, tellOfForeignApi, tracerProvider } from '../observe/otel-api.ts';
import { type Outcome, outcomeTable } from '../observe/outcomes.ts';
import { type ContextScope, currentStore, headerValue, rawHeader, type ScopeTrace } from './context-store.ts';

// Trace ids of an event, with or without an OpenTelemetry SDK.

/** The ids of one event, for its envelope and its W3C record headers. Never zeros. */
interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly traceFlags: number;
  readonly traceState: string | undefined;
}

/** Flags of a trace that starts here. Sampled: a zero would switch off the tracing of consumers. */
const madeTraceFlags = 1;

/**
 * The ids of an event without a span of svc, with a new span id. The trace is that of the span in `active` (default:
 * the active context). Without a span it is the request's, which continues its `traceparent` header; else a new one.
 */
export function currentTrace(active?: Context): TraceIds {
  const parent = activeSpanContext(active);
  if (parent !== undefined) return under(parent.traceId, parent.spanId, parent.traceFlags, stateOf(parent));
  const scope = currentStore()?.scope;
  if (scope === undefined) return under(randomTraceId(), null, madeTraceFlags, undefined);
  const { traceId, parentSpanId, traceFlags, traceState } = scopeTrace(scope);
  return under(traceId, parentSpanId, traceFlags, traceState);
}

/** The ids of an event with a span of svc, started under `parent` (see `spanParent`). */
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

/** The parent context of svc's span: `active`, or without a span in it, the caller's of the `traceparent` header. */
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

/** The API's check for ids from a tracer, without its two regular expressions, which double the cost. */
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
    traceState: headerValue(scope, 'tracestate', maxTraceStateLength) ?? undefined,
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

/** W3C Trace Context: `00-<trace id>-<span id>-<flags>`; later versions may continue after another dash. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const zeroTraceId: string = '0'.repeat(32);
const zeroSpanId: string = '0'.repeat(16);

/** Longest `tracestate` passed on, in characters: the W3C's minimum. */
const maxTraceStateLength = 512;

interface RemoteParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

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

function randomTraceId(): string {
  return randomHex(32);
}

function randomSpanId(): string {
  return randomHex(16);
}

/** Uses `Math.random`, as OpenTelemetry does: ids are not secret, and `node:crypto` takes 8 ms to load. */
function randomHex(digitCount: number): string {
  if (used + digitCount > text.length) {
    // In bulk: one at a time costs ten times as much.
    for (let at = 0; at < words.length; at++) words[at] = Math.random() * 2 ** 32;
    text = bytes.toString('hex');
    used = 0;
  }
  used += digitCount;
  return text.slice(used - digitCount, used);
}

let provider: TracerProvider | undefined;
let tracer: Tracer | undefined;
let tellForeign = (_text: string): void => {};

/** Reports, at once or at the first event without a tracer, an SDK of the application that svc cannot use. */
export function sayWhereSdkIsForeign(tell: (text: string) => void): void {
  tellForeign = tell;
  tellOfForeignApi(tell);
}

/**
 * svc's tracer from the configured or registered tracer provider; `undefined` without one. Call it for each event: an
 * application may start its SDK late, and an earlier tracer can stay a no-op.
 */
export function activeTracer(): Tracer | undefined {
  const current = tracerProvider();
  if (current === undefined) return undefined;
  if (current !== provider) {
    // Without a registration the API returns a proxy without a delegate.
    if (!hasDelegate(current)) return void tellOfForeignApi(tellForeign);
    provider = current;
    tracer = current.getTracer('svc', version);
  }
  return tracer;
}

/** The trace of one event: the ids of its envelope, its W3C record headers, and its span, which ends with the outcome. */
export interface EventTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  /** Ends the span, if any. Call it once. */
  end(outcome: Outcome): void;
}

/** `context`: that of the captured call; default: the active one. */
export type StartTrace = (topic: string, eventId: string, context: Context | undefined) => EventTrace;

/** One PRODUCER span per event if a tracer provider is registered; otherwise ids from svc. */
export function createTraceStarter(system: string): StartTrace {
  const shapes = new Map<string, ProducerSpanShape>();
  const shapeOf = (topic: string): ProducerSpanShape => {
    const known = shapes.get(topic);
    if (known !== undefined) return known;
    const shape = producerSpanShape(topic, system);
    shapes.set(topic, shape);
    return shape;
  };

  return (topic, eventId, context) => {
    const tracer = activeTracer();
    const api = otelApi();
    if (tracer === undefined || api === undefined) return withHeaders(currentTrace(context), () => {});
    const parent = spanParent(context ?? api.context.active());
    const span = startProducerSpan(tracer, shapeOf(topic), parent, eventId);
    return withHeaders(spanTrace(span, parent), (outcome) => endProducerSpan(span, failureOf(outcome)));
  };
}

function withHeaders(ids: TraceIds, end: EventTrace['end']): EventTrace {
  return {
    traceId: ids.traceId,
    spanId: ids.spanId,
    parentSpanId: ids.parentSpanId,
    traceparent: formatTraceparent(ids.traceId, ids.spanId, ids.traceFlags),
    tracestate: ids.traceState,
    end,
  };
}

/** An event that did not reach its topic is a failed send, even if another tier has it. */
function failureOf(outcome: Outcome): SpanFailure | undefined {
  return outcomeTable[outcome].failure === null
    ? undefined
    : { cause: outcome, message: `the event was not published: ${outcome}` };
}

// The API's constants, as numbers: reading them from the module would load it.
const producerKind: SpanKind.PRODUCER = 3;
const errorStatus: SpanStatusCode.ERROR = 2;

/** Defined trace flags: sampled (1) and random (2). */
const definedFlags = 0x03;

/** The common part of the producer spans of one topic: made once per target, not per event. */
interface ProducerSpanShape {
  readonly name: string;
  readonly options: SpanOptions;
}

/** `system` is the value of `messaging.system`: `kafka`, or the name of the broker client for other systems. */
export function producerSpanShape(
  topic: string,
  system: string,
  attributes: Attributes = {},
): ProducerSpanShape {
  return {
    name: `send ${topic}`,
    options: {
      kind: producerKind,
      attributes: {
        ...attributes,
        'messaging.system': system,
        'messaging.destination.name': topic,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
      },
    },
  };
}

/** Starts the one PRODUCER span of an event, as a child of the span in `parent`, the context of the captured call. */
export function startProducerSpan(
  tracer: Tracer,
  shape: ProducerSpanShape,
  parent: Context,
  eventId: string,
): Span {
  const span = tracer.startSpan(shape.name, shape.options, parent);
  span.setAttribute('messaging.message.id', eventId);
  return span;
}

/** Why a span ends as an error; both texts hold no payload values. */
interface SpanFailure {
  /** Low-cardinality: a class name or code, such as `UNKNOWN_TOPIC_OR_PARTITION`. Becomes `error.type`. */
  readonly cause: string;
  readonly message: string;
}

/** Ends the span of an event, as an error if the event did not reach its topic. */
export function endProducerSpan(span: Span, failure?: SpanFailure): void {
  if (failure !== undefined) {
    span.setAttribute('error.type', failure.cause);
    span.setStatus({ code: errorStatus, message: failure.message });
  }
  span.end();
}

export function formatTraceparent(traceId: string, spanId: string, traceFlags: number): string {
  return `00-${traceId}-${spanId}-0${(traceFlags & definedFlags).toString(16)}`;
}

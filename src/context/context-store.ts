import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingHttpHeaders } from 'node:http';
import type {
  Context,
  Span,
  SpanContext,
  SpanKind,
  SpanOptions,
  SpanStatusCode,
  Tracer,
} from '@opentelemetry/api';
import { isTooBig } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import { activeTracer, otelApi, registeredContextManager } from '../observe/otel-api.ts';
import { type Outcome, outcomeTable } from '../observe/outcomes.ts';

/** The data of one request or outermost `runWithContext`, read at most once. `undefined`: not read yet. */
export interface ContextScope {
  /** The `IncomingMessage` of HTTP/1, the `ServerHttp2Stream` of HTTP/2; `null` outside a request. */
  readonly request: object | null;
  headers: IncomingHttpHeaders | null;
  /** The application's request object, if it differs from `request`. See `requestObject`. */
  compatible: object | undefined;
  /** Read at the start of the request: a socket loses it on close. */
  readonly remoteAddress: string | undefined;
  readonly isThroughPipe: boolean;
  correlationId: string | null | undefined;
  clientIp: string | null | undefined;
  trace: ScopeTrace | undefined;
}

/** The trace shared by the events of one scope without a tracer. */
interface ScopeTrace {
  readonly traceId: string;
  /** The caller's span, from `traceparent`; `null` if the trace starts here. */
  readonly parentSpanId: string | null;
  readonly traceFlags: number;
  readonly traceState: string | undefined;
}

/** What the application added. `undefined`: not set; `null`: cleared. */
export interface AddedContext {
  readonly userId: string | null | undefined;
  readonly sessionId: string | null | undefined;
  readonly correlationId: string | null | undefined;
  readonly tags: Readonly<Record<string, string>> | null;
}

export interface ContextStore {
  readonly scope: ContextScope;
  added: AddedContext | null;
  /** The store in which `setContext` was called outside a request, if any. Missing for a request or `runWithContext`. */
  readonly setIn?: ContextStore | null;
}

const storage = shared('context', () => new AsyncLocalStorage<ContextStore>());

export function contextStorage(): AsyncLocalStorage<ContextStore> {
  return storage;
}

export function currentStore(): ContextStore | undefined {
  return storage.getStore();
}

/** Keeps the current user, or its absence, and the current trace for later calls. */
export function inStoreOfCaller(): <R>(work: () => R) => R {
  const store = storage.getStore();
  const runForUser = <R>(work: () => R): R =>
    storage.getStore() === store ? work() : storage.run(store as ContextStore, work);
  const contexts = registeredContextManager() === undefined ? undefined : otelApi()?.context;
  const context = contexts?.active();
  if (contexts === undefined || context === undefined) return runForUser;
  // The store is entered last: it may be newer than that of the OpenTelemetry context.
  return (work) =>
    contexts.active() === context ? runForUser(work) : contexts.with(context, () => runForUser(work));
}

export function createScope(
  request: object | null,
  headers: IncomingHttpHeaders | null,
  remoteAddress: string | undefined,
  isThroughPipe = false,
): ContextScope {
  return {
    request,
    headers,
    compatible: undefined,
    remoteAddress,
    isThroughPipe,
    correlationId: undefined,
    clientIp: undefined,
    trace: undefined,
  };
}

/** Sources of the metadata of events. Every field has a default. */
export interface ContextOptions {
  /** Request headers with the correlation id; the first usable one counts. Default: `x-correlation-id`, `x-request-id`. */
  readonly correlationHeaders?: readonly string[] | undefined;
  /** Creates a correlation id (a UUID) for a request without one. Default: false. */
  readonly generateCorrelationId?: boolean | undefined;
  /** Response header that returns the request's correlation id to the caller. Default: none. */
  readonly correlationResponseHeader?: string | null | undefined;
  /** Reads the client's address from `forwardedHeader`, only behind `trustedProxies`. Default: false. */
  readonly useForwardedHeaders?: boolean | undefined;
  /** The header that your proxies write, and the only one that is read. Default: `x-forwarded-for`. */
  readonly forwardedHeader?: string | undefined;
  /** Addresses, CIDR ranges (`10.0.0.0/8`, `fd00::/8`), or `unix` for servers on a Unix domain socket. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Sources of `actor.userId`, in order. A value from `setContext` has priority. Default: none. */
  readonly userId?: ActorSource | readonly ActorSource[] | undefined;
  /** Sources of `actor.sessionId`, in order. Default: none. */
  readonly sessionId?: ActorSource | readonly ActorSource[] | undefined;
  readonly baggageTags?: readonly string[] | undefined;
}

/**
 * A source of a user or session id: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function.
 *
 * `request:` is a property path of Node's request object, to which Express middleware such as passport adds the user. A
 * function gets that object, or `undefined` outside a request. It returns a string, number or bigint; any other value
 * means unknown. If it throws, the log names it once. Fastify and Koa keep the user on other objects: call `setContext`
 * in a hook.
 */
type ActorSource = string | ((request: unknown) => unknown);

const defaultCorrelationHeaders: readonly string[] = ['x-correlation-id', 'x-request-id'];

/** Reads, or creates, the correlation id of a request once: all its events and its response share it. */
export function createCorrelationReader(options: ContextOptions): (scope: ContextScope) => string | null {
  const names = (options.correlationHeaders ?? defaultCorrelationHeaders).map(requestHeader.nameOf);
  const generate = options.generateCorrelationId === true;
  return (scope) => {
    if (scope.correlationId === undefined) scope.correlationId = find(scope);
    return scope.correlationId;
  };

  function find(scope: ContextScope): string | null {
    if (scope.request === null) return null;
    for (const name of names) {
      const value = requestHeader.value(scope, name);
      if (value !== null) return value;
    }
    return generate ? nodeCrypto().randomUUID() : null;
  }
}

/** Longest header or baggage value that is copied into an event, in characters. */
const maxValueLength = 256;

const printableAscii = /^[\x20-\x7e]+$/;
const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const invisible = lazyPattern(String.raw`\p{C}`, 'u');

/** The request's headers with lower-case names; `undefined` outside a request. HTTP/1 parses them on first use. */
function requestHeaders(scope: ContextScope): IncomingHttpHeaders | undefined {
  if (scope.headers === null) {
    if (scope.request === null) return undefined;
    scope.headers = (scope.request as { headers: IncomingHttpHeaders }).headers;
  }
  return scope.headers;
}

/** The headers of a request, by their lower-case names. */
export const requestHeader = {
  /** Lower case, as in Node. Throws `SVC_CONTEXT_BAD_HEADER_NAME` for an invalid name. */
  nameOf(name: string): string {
    if (headerName.test(name)) return name.toLowerCase();
    throw new SvcError('SVC_CONTEXT_BAD_HEADER_NAME', `"${name}" is not the name of a header`);
  },

  /** The unchecked value of a header, of any length; `null` if absent. */
  raw(scope: ContextScope, name: string): string | null {
    const value = requestHeaders(scope)?.[name];
    return typeof value === 'string' ? value : null;
  },

  /** The trimmed value of a header, if it is 1 to `maxLength` characters of printable ASCII; else `null`. */
  value(scope: ContextScope, name: string, maxLength = maxValueLength): string | null {
    const text = requestHeader.raw(scope, name)?.trim() ?? '';
    return text.length <= maxLength && printableAscii.test(text) ? text : null;
  },
};

/** External text, if it is 1 to 256 characters without control or format characters; else `null`. */
export function boundedText(value: unknown): string | null {
  const text = scalarText(value);
  if (text === null || text.length === 0 || text.length > maxValueLength || invisible().test(text))
    return null;
  return text;
}

/** A string as it is, a number or bigint in decimal; `null` for any other value. */
export function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint' ? !isTooBig(value) : typeof value === 'number' && Number.isFinite(value))
    return String(value);
  return null;
}

/** The application's request object, if any. For HTTP/2 Node keeps it under a private symbol of the open stream. */
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

/** `null` for an invalid encoding. */
export function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

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
function currentTrace(active?: Context): TraceIds {
  const parent = activeSpanContext(active);
  if (parent !== undefined) return under(parent.traceId, parent.spanId, parent.traceFlags, stateOf(parent));
  const scope = currentStore()?.scope;
  if (scope === undefined) return under(randomTraceId(), null, madeTraceFlags, undefined);
  const { traceId, parentSpanId, traceFlags, traceState } = scopeTrace(scope);
  return under(traceId, parentSpanId, traceFlags, traceState);
}

/** The ids of an event with a span of svc, started under `parent` (see `spanParent`). */
function spanTrace(span: Span, parent: Context): TraceIds {
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
function spanParent(active: Context): Context {
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
  const remote = parseTraceparent(requestHeader.raw(scope, 'traceparent'));
  if (remote === null) return null;
  return {
    traceId: remote.traceId,
    parentSpanId: remote.spanId,
    traceFlags: remote.traceFlags,
    traceState: requestHeader.value(scope, 'tracestate', maxTraceStateLength) ?? undefined,
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
type StartTrace = (topic: string, eventId: string, context: Context | undefined) => EventTrace;

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
function producerSpanShape(topic: string, system: string): ProducerSpanShape {
  return {
    name: `send ${topic}`,
    options: {
      kind: producerKind,
      attributes: {
        'messaging.system': system,
        'messaging.destination.name': topic,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
      },
    },
  };
}

/** Starts the one PRODUCER span of an event, as a child of the span in `parent`, the context of the captured call. */
function startProducerSpan(tracer: Tracer, shape: ProducerSpanShape, parent: Context, eventId: string): Span {
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
function endProducerSpan(span: Span, failure?: SpanFailure): void {
  if (failure !== undefined) {
    span.setAttribute('error.type', failure.cause);
    span.setStatus({ code: errorStatus, message: failure.message });
  }
  span.end();
}

function formatTraceparent(traceId: string, spanId: string, traceFlags: number): string {
  return `00-${traceId}-${spanId}-0${(traceFlags & definedFlags).toString(16)}`;
}

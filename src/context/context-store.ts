import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingHttpHeaders } from 'node:http';
import { isTooBig } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import type { Logger } from '../observe/logger.ts';
import { otelApi, registeredContextManager } from '../observe/otel-api.ts';

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
export interface ScopeTrace {
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
  readonly logger?: Logger | undefined;
}

/**
 * A source of a user or session id: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function.
 *
 * `request:` is a property path of Node's request object, to which Express middleware such as passport adds the user. A
 * function gets that object, or `undefined` outside a request. It returns a string, number or bigint; any other value
 * means unknown. If it throws, the log names it once. Fastify and Koa keep the user on other objects: call `setContext`
 * in a hook.
 */
export type ActorSource = string | ((request: unknown) => unknown);

const defaultCorrelationHeaders: readonly string[] = ['x-correlation-id', 'x-request-id'];

/** Reads, or creates, the correlation id of a request once: all its events and its response share it. */
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

/** The unchecked value of a header, of any length; `null` if absent. */
export function rawHeader(scope: ContextScope, lowerCaseName: string): string | null {
  const value = requestHeaders(scope)?.[lowerCaseName];
  return typeof value === 'string' ? value : null;
}

/** The trimmed value of a header, if it is 1 to `maxLength` characters of printable ASCII; else `null`. */
export function headerValue(
  scope: ContextScope,
  lowerCaseName: string,
  maxLength = maxValueLength,
): string | null {
  const text = rawHeader(scope, lowerCaseName)?.trim() ?? '';
  return text.length <= maxLength && printableAscii.test(text) ? text : null;
}

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

/** Lower case, as in Node. Throws `SVC_CONTEXT_BAD_HEADER_NAME` for an invalid name. */
export function toHeaderName(name: string): string {
  if (headerName.test(name)) return name.toLowerCase();
  throw new SvcError('SVC_CONTEXT_BAD_HEADER_NAME', `"${name}" is not the name of a header`);
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

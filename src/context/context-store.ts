import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingHttpHeaders } from 'node:http';
import { isTooBig } from '../ground/bounds.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import type { Logger } from '../observe/logger.ts';
import { otelApi, registeredContextManager } from '../observe/otel-api.ts';

/**
 * What belongs to one request (or to one outermost `runWithContext`) and is found out at most once, when the first event
 * asks. `undefined` means: not asked yet.
 */
export interface ContextScope {
  /** The `IncomingMessage` of HTTP/1, the `ServerHttp2Stream` of HTTP/2; `null` outside a request. */
  readonly request: object | null;
  headers: IncomingHttpHeaders | null;
  /** What `request` is for the application, where that is another object. See `requestObject`. */
  compatible: object | undefined;
  /** Read at the start of the request: a socket forgets it when it closes. */
  readonly remoteAddress: string | undefined;
  /** It came through a Unix domain socket or a pipe, by what the server listens on. */
  readonly isThroughPipe: boolean;
  correlationId: string | null | undefined;
  clientIp: string | null | undefined;
  trace: ScopeTrace | undefined;
}

/** The trace that the events of one scope share where no tracer says otherwise. */
export interface ScopeTrace {
  readonly traceId: string;
  /** The caller's span, from `traceparent`; `null` where the trace begins here. */
  readonly parentSpanId: string | null;
  readonly traceFlags: number;
  readonly traceState: string | undefined;
}

/** What the application added. `undefined`: it said nothing; `null`: it said that there is none. */
export interface AddedContext {
  readonly userId: string | null | undefined;
  readonly sessionId: string | null | undefined;
  readonly correlationId: string | null | undefined;
  readonly tags: Readonly<Record<string, string>> | null;
}

export interface ContextStore {
  readonly scope: ContextScope;
  added: AddedContext | null;
  /** `setContext` made it outside of a request: within this one, `null` without one. Left out: a request or `runWithContext` did. */
  readonly setIn?: ContextStore | null;
}

const storage = shared('context', () => new AsyncLocalStorage<ContextStore>());

export function contextStorage(): AsyncLocalStorage<ContextStore> {
  return storage;
}

export function currentStore(): ContextStore | undefined {
  return storage.getStore();
}

/**
 * Runs what is called later for the user of now, or for nobody where there is none, and with the trace of now: an event has both of
 * one caller.
 */
export function inStoreOfCaller(): <R>(work: () => R) => R {
  const store = storage.getStore();
  const runForUser = <R>(work: () => R): R =>
    storage.getStore() === store ? work() : storage.run(store as ContextStore, work);
  const contexts = registeredContextManager() === undefined ? undefined : otelApi()?.context;
  const context = contexts?.active();
  if (contexts === undefined || context === undefined) return runForUser;
  // The store within: it may be newer than the one that the context carries.
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

/** Where the values of an event's metadata come from. Every field has a default: nothing has to be configured. */
export interface ContextOptions {
  /** Request headers that carry the correlation id; the first usable one counts. Default: `x-correlation-id`, `x-request-id`. */
  readonly correlationHeaders?: readonly string[] | undefined;
  /** Makes a correlation id (a UUID) for a request that brought none. Default: false. */
  readonly generateCorrelationId?: boolean | undefined;
  /** Response header that tells the caller the request's correlation id. Default: none. */
  readonly correlationResponseHeader?: string | null | undefined;
  /** Reads the client's address from `forwardedHeader`, through `trustedProxies` only. Default: false. */
  readonly useForwardedHeaders?: boolean | undefined;
  /** The header that your proxies write, the only one that is read. Default: `x-forwarded-for`. See `createClientAddressReader`. */
  readonly forwardedHeader?: string | undefined;
  /** Addresses, CIDR ranges (`10.0.0.0/8`, `fd00::/8`), or `unix` for servers that listen on a Unix domain socket. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Sources of `actor.userId`, asked in order. What the application says with `setContext` goes first. Default: none. */
  readonly userId?: ActorSource | readonly ActorSource[] | undefined;
  /** Sources of `actor.sessionId`, asked in order. Default: none. */
  readonly sessionId?: ActorSource | readonly ActorSource[] | undefined;
  /** Baggage entries that become tags. Default: none. */
  readonly baggageTags?: readonly string[] | undefined;
  readonly logger?: Logger | undefined;
}

/**
 * Where a user or session id comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id` (a property path of
 * Node's request object, for what Express middleware such as passport puts on it), or a function of that request, which is
 * `undefined` outside of one. Fastify and Koa keep the user on objects of their own: call `setContext` in a hook there.
 * A function answers with a string, number or bigint, else the value is not known; one that throws is named once in the log.
 */
export type ActorSource = string | ((request: unknown) => unknown);

const defaultCorrelationHeaders: readonly string[] = ['x-correlation-id', 'x-request-id'];

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

/** Longest header or baggage value taken over into an event, in characters. */
const maxValueLength = 256;

const printableAscii = /^[\x20-\x7e]+$/;
const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const invisible = lazyPattern(String.raw`\p{C}`, 'u');

/** The request's headers with lower-case names; `undefined` outside a request. HTTP/1 parses them at the first use. */
function requestHeaders(scope: ContextScope): IncomingHttpHeaders | undefined {
  if (scope.headers === null) {
    if (scope.request === null) return undefined;
    scope.headers = (scope.request as { headers: IncomingHttpHeaders }).headers;
  }
  return scope.headers;
}

/** A header as it came, however long; `null` when absent. */
export function rawHeader(scope: ContextScope, lowerCaseName: string): string | null {
  const value = requestHeaders(scope)?.[lowerCaseName];
  return typeof value === 'string' ? value : null;
}

/** A header fit for an event: printable ASCII, 1 to 256 characters, else `null`. Anybody can send anything. */
export function headerValue(scope: ContextScope, lowerCaseName: string): string | null {
  return printable(rawHeader(scope, lowerCaseName), maxValueLength);
}

/** `value` trimmed, when it is printable ASCII of 1 to `maxLength` characters, else `null`. */
export function printable(value: string | null, maxLength: number): string | null {
  const text = value?.trim() ?? '';
  return text.length <= maxLength && printableAscii.test(text) ? text : null;
}

/** Text of any script from outside, fit for an event: 1 to 256 characters, no control or format characters, else `null`. */
export function boundedText(value: unknown): string | null {
  const text = scalarText(value);
  if (text === null || text.length === 0 || text.length > maxValueLength || invisible().test(text))
    return null;
  return text;
}

/** A string as it is, a number or bigint in decimal; anything else is no identifier: `null`. */
export function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint' ? !isTooBig(value) : typeof value === 'number' && Number.isFinite(value))
    return String(value);
  return null;
}

/** Lower case, as Node names headers. Throws `SVC_CONTEXT_BAD_HEADER_NAME` for what no header can be called. */
export function toHeaderName(name: string): string {
  if (headerName.test(name)) return name.toLowerCase();
  throw new SvcError('SVC_CONTEXT_BAD_HEADER_NAME', `"${name}" is not the name of a header`);
}

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

import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingHttpHeaders } from 'node:http';
import { shared } from '../ground/lifecycle.ts';
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

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';
import type { Context, ContextManager } from '@opentelemetry/api';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import { isNamedValues, plainObject, unknownName } from '../ground/names.ts';
import { registeredContextManager } from '../observe/otel-api.ts';
import {
  type AddedContext,
  type ContextOptions,
  type ContextScope,
  type ContextStore,
  contextStorage,
  createCorrelationReader,
  createScope,
  currentStore,
  requestHeader,
  requestObject,
  scalarText,
} from './context-store.ts';

// svc's store is an entry of OpenTelemetry's context too, so that the user travels with the trace. Instrumentations bind driver
// callbacks to that context, where a separate AsyncLocalStorage would be that of the code that opened the connection.

/** `attach` exists since 1.10 of the API. */
type Manager = ContextManager & { attach?(this: unknown, context: Context, ...rest: unknown[]): unknown };

const key = Symbol.for('svc context');
/** The entry of a context that was created without a store of svc. */
const nobody = Symbol.for('svc context: nobody');
type Entry = ContextStore | typeof nobody;

const carrier = shared('otel-carrier', () => ({
  isOn: false,
  known: undefined as object | undefined,
  patched: new WeakSet<object>(),
}));

/** Active until the returned function is called. Does nothing before an application registers a context manager. */
function carryInOtel(): () => void {
  carrier.isOn = true;
  followContextManager();
  return () => {
    carrier.isOn = false;
  };
}

/** OpenTelemetry does not report the registration of a context manager: check whenever a store is entered. */
function followContextManager(): void {
  const manager = registeredContextManager();
  if (manager === carrier.known || !carrier.isOn) return;
  carrier.known = manager;
  if (manager === undefined || carrier.patched.has(manager)) return;
  carrier.patched.add(manager);
  patch(manager as Manager);
}

function patch(manager: Manager): void {
  const { with: runWith, bind, attach } = manager;
  const storage = contextStorage();

  replace(manager, 'with', (context: Context, ...rest: unknown[]) => {
    const found = read(context, manager);
    if (!found.isElsewhere) return Reflect.apply(runWith, manager, [found.context, ...rest]);
    return storage.run(found.store as ContextStore, () =>
      Reflect.apply(runWith, manager, [context, ...rest]),
    );
  });
  replace(manager, 'bind', (context: Context, ...rest: unknown[]) =>
    Reflect.apply(bind, manager, [read(context, manager).context, ...rest]),
  );
  if (typeof attach === 'function')
    replace(manager, 'attach', (context: Context, ...rest: unknown[]) => {
      const found = read(context, manager);
      const token = Reflect.apply(attach, manager, [found.context, ...rest]);
      return found.isElsewhere ? enterUntilDisposed(found.store, token) : token;
    });
}

/** Disposing the token of `attach` restores the previous context. */
function enterUntilDisposed(store: ContextStore | undefined, token: unknown): unknown {
  const { dispose } = (token ?? {}) as { dispose?: () => void };
  if (typeof dispose !== 'function') return token;
  const storage = contextStorage();
  const before = storage.getStore();
  storage.enterWith(store as ContextStore);
  (token as { dispose: () => void }).dispose = () => {
    if (storage.getStore() === store) storage.enterWith(before as ContextStore);
    dispose.call(token);
  };
  return token;
}

interface Found {
  /** The context to continue with: it has an entry. */
  readonly context: Context;
  /** The context belongs to another execution than the caller's: its store counts. */
  readonly isElsewhere: boolean;
  readonly store: ContextStore | undefined;
}

/** Of a context derived from the active one, the caller's store counts, which may be newer. Others come from elsewhere. */
function read(context: Context, manager: Manager): Found {
  const store = contextStorage().getStore();
  const mine = { context, isElsewhere: false, store };
  if (!carrier.isOn) return mine;
  try {
    const here: Entry = store ?? nobody;
    const entry = context.getValue(key) as Entry | undefined;
    if (entry === here) return mine;
    if (entry === undefined || entry === manager.active().getValue(key))
      return { ...mine, context: context.setValue(key, here) };
    return { context, isElsewhere: true, store: entry === nobody ? undefined : entry };
  } catch {
    return mine;
  }
}

function replace(manager: Manager, name: keyof Manager, made: (...args: never[]) => unknown): void {
  try {
    // Not enumerable, like the method that it shadows.
    Object.defineProperty(manager, name, {
      ...{ value: made, writable: true, configurable: true, enumerable: false },
    });
  } catch {}
}

// Keeps the context of a request, for HTTP/1 and HTTP/2 without a framework.

const http1Channel = 'http.server.request.start';
const http2Channel = 'http2.server.stream.start';

interface Http1Start {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
}

interface Http2Start {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
}

/**
 * Gives every request of every HTTP/1, HTTPS and HTTP/2 server in this process a separate context, with any framework.
 * Call the returned function to stop. Upgraded connections (WebSocket) are not covered: use `runWithContext`.
 */
export function installRequestContext(options: ContextOptions = {}): () => void {
  const storage = contextStorage();
  const responseHeader = toResponseHeader(options.correlationResponseHeader);
  const readCorrelationId = createCorrelationReader(options);

  function startHttp1(message: unknown): void {
    const { request, response, socket } = message as Http1Start;
    const scope = createScope(request, null, addressOf(socket), isThroughPipe(socket));
    const store = { scope, added: null };
    keepStore(request, store);
    keepStore(response, store);
    // Not bindStore: Node publishes this channel without running the request inside it.
    followContextManager();
    storage.enterWith(store);
    answer(scope, (name, id) => response.setHeader(name, id));
  }

  function startHttp2(message: unknown): void {
    const { stream, headers } = message as Http2Start;
    followContextManager();
    storage.enterWith(storeOfStream(stream, headers));
  }

  function storeOfStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): ContextStore {
    const { address, isThroughPipe } = peerOfStream(stream);
    const scope = createScope(stream, headers, address, isThroughPipe);
    const store = { scope, added: null };
    keepStore(stream, store, (event) => {
      // The last moment when the stream knows the application's request object.
      if (event === 'close') requestObject(scope);
    });
    answer(scope, (name, id) => setHeaderOfStream(stream, name, id));
    return store;
  }

  function answer(scope: ContextScope, setHeader: (name: string, id: string) => void): void {
    const id = responseHeader === undefined ? null : readCorrelationId(scope);
    if (id !== null) setHeader(responseHeader as string, id);
  }

  subscribe(http1Channel, startHttp1);
  subscribe(http2Channel, startHttp2);
  const forgetAddresses = keepAddresses();
  const endCarrying = carryInOtel();
  const unwatch = hasStreamChannel() ? undefined : watchHttp2Servers(storeOfStream);
  return () => {
    unwatch?.();
    endCarrying();
    forgetAddresses();
    unsubscribe(http1Channel, startHttp1);
    unsubscribe(http2Channel, startHttp2);
  };
}

function toResponseHeader(name: string | null | undefined): string | undefined {
  return name === null || name === undefined || name === '' ? undefined : requestHeader.nameOf(name);
}

/**
 * Makes listeners of this emitter run inside its request's store: Node 24 and later emit `data`, `end` and others
 * outside it. Only svc's own store is entered, and a store nested in the same request (`runWithContext`) stays.
 * `beforeEvent` is called before the listeners of each event.
 */
function keepStore(
  emitter: EventEmitter,
  store: ContextStore,
  beforeEvent?: (name: string | symbol) => void,
): void {
  const storage = contextStorage();
  const emit = emitter.emit;
  const emitInStore = function (this: EventEmitter, ...args: Parameters<EventEmitter['emit']>): boolean {
    beforeEvent?.(args[0]);
    if (storage.getStore()?.scope === store.scope) return emit.apply(this, args);
    return storage.run(store, () => emit.apply(this, args));
  };
  // Not enumerable: applications print, copy and compare requests.
  Object.defineProperty(emitter, 'emit', {
    value: emitInStore,
    writable: true,
    configurable: true,
    enumerable: false,
  });
}

const socketChannel = 'net.server.socket';
const classNames = ['Http2Server', 'Http2SecureServer'];

/** The first versions known to publish `http2.server.stream.start`; in others, servers must be watched. */
function hasStreamChannel(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major === 22) return minor >= 23;
  return major === 24 ? minor >= 21 : major > 24;
}

/**
 * For Node versions that do not publish the start of an HTTP/2 stream. Finds each HTTP/2 server at its first
 * connection, and runs its streams in the store from `storeOf`. Does not load HTTP/2.
 */
function watchHttp2Servers(
  storeOf: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => ContextStore,
): () => void {
  const watched = new WeakSet<Server>();
  let active = true;

  function onSocket(message: unknown): void {
    const { server } = (message as { socket: Socket & { server?: Server } }).socket;
    if (server === undefined || watched.has(server) || !classNames.includes(server.constructor.name)) return;
    watched.add(server);
    const emit = server.emit;
    const emitInStore = function (this: Server, ...args: unknown[]): boolean {
      const run = () => emit.apply(this, args as Parameters<Server['emit']>);
      if (!active || args[0] !== 'stream' || currentStore()?.scope.request === args[1]) return run();
      return contextStorage().run(storeOf(args[1] as ServerHttp2Stream, args[2] as IncomingHttpHeaders), run);
    };
    Object.defineProperty(server, 'emit', {
      value: emitInStore,
      writable: true,
      configurable: true,
      enumerable: false,
    });
  }

  subscribe(socketChannel, onSocket);
  return () => {
    active = false;
    unsubscribe(socketChannel, onSocket);
  };
}

const socketChannelOfPeer = 'net.server.socket';

interface Inside {
  /** The server that accepted it. `server` can change: an HTTP server sets it on a socket that it is handed. */
  readonly _server?: Server | null;
  readonly server?: Server | null;
  readonly _parent?: (Socket & Inside) | null;
}

/** Reads each socket's address on accept, until the returned function is called: after a reset it would be unknown. */
function keepAddresses(): () => void {
  const onSocket = (message: unknown): void => void (message as { socket: Socket }).socket.remoteAddress;
  subscribe(socketChannelOfPeer, onSocket);
  return () => void unsubscribe(socketChannelOfPeer, onSocket);
}

/** `undefined`: a Unix domain socket, a pipe, or no longer known. */
function addressOf(socket: Socket): string | undefined {
  return socket.remoteAddress ?? (socket as Socket & Inside)._parent?.remoteAddress;
}

/** Whether its server listens on a path or a pipe. A missing address does not show it: a reset socket lacks one too. */
function isThroughPipe(socket: Socket): boolean {
  if (addressOf(socket) !== undefined) return false;
  const { _parent, _server, server } = socket as Socket & Inside;
  return [_parent?._server, _server, server].some(listensOnPipe);
}

function listensOnPipe(server: (Server & { _handle?: object | null }) | null | undefined): boolean {
  if (typeof server?.address !== 'function') return false;
  // A descriptor inherited from a supervisor has no name, but its handle has a kind.
  return typeof server.address() === 'string' || server._handle?.constructor.name === 'Pipe';
}

interface Peer {
  readonly address: string | undefined;
  readonly isThroughPipe: boolean;
}

const unknown: Peer = { address: undefined, isThroughPipe: false };
/** `session.socket` is a proxy that ends with the session: read once per connection. */
const peers = new WeakMap<Http2Session, Peer>();

function peerOfStream(stream: ServerHttp2Stream): Peer {
  const { session } = stream;
  if (session === undefined) return unknown;
  let peer = peers.get(session);
  if (peer === undefined) {
    const { destroyed, socket } = session;
    peer = destroyed ? unknown : { address: addressOf(socket), isThroughPipe: isThroughPipe(socket) };
    peers.set(session, peer);
  }
  return peer;
}

const respondMethods = ['respond', 'respondWithFD', 'respondWithFile'] as const;

/** Adds a header to the application's later response: a stream, unlike a response, cannot take one early. */
function setHeaderOfStream(stream: ServerHttp2Stream, name: string, value: string): void {
  for (const method of respondMethods) {
    // `respond(headers, options)`; the other methods take the file first.
    const at = method === 'respond' ? 0 : 1;
    const original = stream[method] as (...args: unknown[]) => void;
    const respond = (...args: unknown[]): void => {
      args[at] = withHeader(args[at], name, value);
      original.apply(stream, args);
    };
    Object.defineProperty(stream, method, {
      value: respond,
      writable: true,
      configurable: true,
      enumerable: false,
    });
  }
}

/** Newer Node versions also take headers as a flat array. Headers of the application stay. */
function withHeader(headers: unknown, name: string, value: string): unknown {
  if (Array.isArray(headers)) {
    const there = headers.some((entry, at) => at % 2 === 0 && String(entry).toLowerCase() === name);
    return there ? headers : [...headers, name, value];
  }
  const own = (headers ?? {}) as Record<string, unknown>;
  if (Object.keys(own).some((key) => key.toLowerCase() === name)) return own;
  // Copied as Node does it, to keep the prototype and symbols (never-index marks).
  return Object.assign(Object.create(Object.getPrototypeOf(own)), own, { [name]: value });
}

/** Values that the application sets for its events. `undefined` leaves a value as it is, `null` clears it. */
export interface ContextValues {
  readonly userId?: string | number | bigint | null | undefined;
  readonly sessionId?: string | number | bigint | null | undefined;
  readonly correlationId?: string | number | bigint | null | undefined;
  /** Merged with the current tags; a `null` removes one. */
  readonly tags?:
    | Readonly<Record<string, string | number | bigint | boolean | null | undefined>>
    | null
    | undefined;
}

/**
 * Runs `fn` with these values for all events published by `fn` and by everything that it starts. Inside a request or
 * another `runWithContext` the values are added, and end with `fn`. Outside, the events in `fn` share one trace.
 *
 * @throws SvcError `SVC_CONTEXT_VALUES` for values that are not an object, and for an unknown name
 */
export function runWithContext<T>(values: ContextValues, fn: () => T): T {
  followContextManager();
  const storage = contextStorage();
  const outer = storage.getStore();
  const scope = outer?.scope ?? createScope(null, null, undefined);
  return storage.run({ scope, added: merge(outer?.added ?? null, values) }, fn);
}

/**
 * Adds these values to the rest of the current HTTP request: for authentication hooks.
 *
 * Outside a request they apply to the rest of the current asynchronous execution, as with
 * `AsyncLocalStorage.enterWith`: not to its caller, nor to concurrent executions. Use `runWithContext` for sequential
 * work in one execution, such as AWS Lambda invocations or messages of a consumer. There, a `setContext` with another
 * user, session or correlation id drops all values of the earlier one.
 *
 * @throws SvcError `SVC_CONTEXT_VALUES` for values that are not an object, and for an unknown name
 */
export function setContext(values: ContextValues): void {
  check(values);
  followContextManager();
  const storage = contextStorage();
  const store = storage.getStore();
  if (store !== undefined && store.scope.request !== null) store.added = merge(store.added, values);
  else storage.enterWith(copyWith(store, values));
}

/** Copies before writing: concurrent executions may have inherited the same store. */
function copyWith(store: ContextStore | undefined, values: ContextValues): ContextStore {
  const isSet = store?.setIn !== undefined;
  const outer = isSet ? (store.setIn ?? undefined) : store;
  // Drop the values of the previous user.
  const base = isSet && namesAnother(store.added, values) ? outer : store;
  return {
    scope: base?.scope ?? createScope(null, null, undefined),
    added: merge(base?.added ?? null, values),
    setIn: outer ?? null,
  };
}

function namesAnother(old: AddedContext | null, values: ContextValues): boolean {
  return (['userId', 'sessionId', 'correlationId'] as const).some((name) => {
    const [before, now] = [old?.[name] ?? null, values[name]];
    return before !== null && now !== undefined && scalarText(now) !== before;
  });
}

const names = ['userId', 'sessionId', 'correlationId', 'tags'];

/** Untyped callers may misspell a name, which would lose the value silently. */
function check(values: unknown): void {
  if (!isNamedValues(values)) throw wrong(`the values must be ${plainObject}`);
  for (const name of Object.keys(values))
    if (!names.includes(name)) throw wrong(unknownName('value', name, names));
  const { tags } = values;
  if (tags !== undefined && tags !== null && !isNamedValues(tags)) throw wrong(`tags must be ${plainObject}`);
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_CONTEXT_VALUES', `setContext() or runWithContext(): ${what}`);
}

function merge(old: AddedContext | null, values: ContextValues): AddedContext {
  check(values);
  return {
    userId: textOr(old?.userId, values.userId),
    sessionId: textOr(old?.sessionId, values.sessionId),
    correlationId: textOr(old?.correlationId, values.correlationId),
    tags: mergeTags(old?.tags ?? null, values.tags),
  };
}

function textOr(old: string | null | undefined, value: unknown): string | null | undefined {
  return value === undefined ? old : scalarText(value);
}

/** Makes a new object: earlier events keep the old one. */
function mergeTags(old: AddedContext['tags'], values: ContextValues['tags']): AddedContext['tags'] {
  if (values === undefined || values === null) return values === null ? null : old;
  const tags: Record<string, string> = { ...old };
  for (const [name, value] of Object.entries(values)) {
    const text = typeof value === 'boolean' ? String(value) : scalarText(value);
    if (text === null) delete tags[name];
    else if (name !== '__proto__') tags[name] = text;
  }
  return Object.keys(tags).length > 0 ? tags : null;
}

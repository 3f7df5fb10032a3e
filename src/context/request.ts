import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';
import {
  type ContextOptions,
  type ContextScope,
  type ContextStore,
  contextStorage,
  createCorrelationReader,
  createScope,
  currentStore,
  requestObject,
  toHeaderName,
} from './context-store.ts';
import { carryInOtel, followContextManager } from './otel-carrier.ts';

// how the context of a request is kept, for HTTP/1 and HTTP/2 without a framework.

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
 * Gives every request of every HTTP/1, HTTPS and HTTP/2 server of this process its own context, whatever the framework,
 * from now until the returned function is called. Upgraded connections (WebSocket) have none: use `runWithContext`.
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
    // bindStore does nothing here: Node publishes this channel without running the request inside of it.
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
      // The last moment at which the stream knows the request that the application has in hand.
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
  return name === null || name === undefined || name === '' ? undefined : toHeaderName(name);
}

/**
 * Makes listeners of this emitter run inside its request's store. Node 24 and later emit `data`, `end` and others of a
 * request outside of it. Only our own store is entered, so that nobody else's context changes; a store nested in the
 * same request (`runWithContext`) is left alone. `beforeEvent` is called before the listeners of each event.
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

/** The first versions known to publish `http2.server.stream.start`; without it, servers have to be watched. */
export function hasStreamChannel(nodeVersion: string = process.versions.node): boolean {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  if (major === 22) return minor >= 23;
  return major === 24 ? minor >= 21 : major > 24;
}

/**
 * For Nodes that do not publish the start of an HTTP/2 stream: finds each HTTP/2 server at its first connection and runs
 * its streams in the store that `storeOf` makes. Loads nothing of HTTP/2.
 */
export function watchHttp2Servers(
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

/** What Node keeps on a socket beside its public properties. */
interface Inside {
  /** The server that has accepted it. An HTTP server that is handed the socket writes `server` over. */
  readonly _server?: Server | null;
  readonly server?: Server | null;
  /** Of a TLS socket: the one that it speaks through. */
  readonly _parent?: (Socket & Inside) | null;
}

/**
 * Asks each socket for its address when it is accepted, from now until the returned function is called. Node keeps the answer; later
 * it knows none of a connection that its client has reset meanwhile.
 */
function keepAddresses(): () => void {
  const onSocket = (message: unknown): void => void (message as { socket: Socket }).socket.remoteAddress;
  subscribe(socketChannelOfPeer, onSocket);
  return () => void unsubscribe(socketChannelOfPeer, onSocket);
}

/** `undefined`: a Unix domain socket, a pipe, or nobody knows any more. */
function addressOf(socket: Socket): string | undefined {
  return socket.remoteAddress ?? (socket as Socket & Inside)._parent?.remoteAddress;
}

/** Whether its server listens on a path or a pipe. A socket without an address is no sign of it: one that was reset has none either. */
function isThroughPipe(socket: Socket): boolean {
  if (addressOf(socket) !== undefined) return false;
  const { _parent, _server, server } = socket as Socket & Inside;
  return [_parent?._server, _server, server].some(listensOnPipe);
}

function listensOnPipe(server: (Server & { _handle?: object | null }) | null | undefined): boolean {
  if (typeof server?.address !== 'function') return false;
  // A descriptor that was handed down by a supervisor has no name, and its handle has a kind.
  return typeof server.address() === 'string' || server._handle?.constructor.name === 'Pipe';
}

interface Peer {
  readonly address: string | undefined;
  readonly isThroughPipe: boolean;
}

const unknown: Peer = { address: undefined, isThroughPipe: false };
/** `session.socket` is a proxy, and gone with the session: asked once per connection. */
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

/**
 * Adds a header to whatever the application will respond. A stream, unlike a response, has no place to put one early; the
 * compatibility API responds through the same methods.
 */
function setHeaderOfStream(stream: ServerHttp2Stream, name: string, value: string): void {
  for (const method of respondMethods) {
    // `respond(headers, options)`; the others take the file first.
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

/** Newer Nodes take headers as a flat array too. What the application set itself stays. */
function withHeader(headers: unknown, name: string, value: string): unknown {
  if (Array.isArray(headers)) {
    const there = headers.some((entry, at) => at % 2 === 0 && String(entry).toLowerCase() === name);
    return there ? headers : [...headers, name, value];
  }
  const own = (headers ?? {}) as Record<string, unknown>;
  if (Object.keys(own).some((key) => key.toLowerCase() === name)) return own;
  // Its prototype and symbols (never-index marks) have to stay, so it is copied as Node itself copies it.
  return Object.assign(Object.create(Object.getPrototypeOf(own)), own, { [name]: value });
}

// request/: how the context of a request is kept, for HTTP/1 and HTTP/2 without a framework.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { ContextOptions } from '../context-options.ts';
import { type ContextScope, type ContextStore, contextStorage, createScope } from '../context-store.ts';
import { createCorrelationReader } from '../correlation-id.ts';
import { carryInOtel, followContextManager } from '../otel-carrier.ts';
import { toHeaderName } from './header-value.ts';
import { hasStreamChannel, watchHttp2Servers } from './http2-server.ts';
import { peerOfStream, setHeaderOfStream } from './http2-stream.ts';
import { addressOf, isThroughPipe, keepAddresses } from './peer.ts';
import { requestObject } from './request-object.ts';

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

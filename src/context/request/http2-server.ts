import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingHttpHeaders } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';
import { type ContextStore, contextStorage, currentStore } from '../context-store.ts';

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

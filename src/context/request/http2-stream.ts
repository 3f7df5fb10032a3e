import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import { addressOf, isThroughPipe } from './peer.ts';

interface Peer {
  readonly address: string | undefined;
  readonly isThroughPipe: boolean;
}

const unknown: Peer = { address: undefined, isThroughPipe: false };
/** `session.socket` is a proxy, and gone with the session: asked once per connection. */
const peers = new WeakMap<Http2Session, Peer>();

export function peerOfStream(stream: ServerHttp2Stream): Peer {
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
export function setHeaderOfStream(stream: ServerHttp2Stream, name: string, value: string): void {
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

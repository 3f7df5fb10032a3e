import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Server, Socket } from 'node:net';

const socketChannel = 'net.server.socket';

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
export function keepAddresses(): () => void {
  const onSocket = (message: unknown): void => void (message as { socket: Socket }).socket.remoteAddress;
  subscribe(socketChannel, onSocket);
  return () => void unsubscribe(socketChannel, onSocket);
}

/** `undefined`: a Unix domain socket, a pipe, or nobody knows any more. */
export function addressOf(socket: Socket): string | undefined {
  return socket.remoteAddress ?? (socket as Socket & Inside)._parent?.remoteAddress;
}

/** Whether its server listens on a path or a pipe. A socket without an address is no sign of it: one that was reset has none either. */
export function isThroughPipe(socket: Socket): boolean {
  if (addressOf(socket) !== undefined) return false;
  const { _parent, _server, server } = socket as Socket & Inside;
  return [_parent?._server, _server, server].some(listensOnPipe);
}

function listensOnPipe(server: (Server & { _handle?: object | null }) | null | undefined): boolean {
  if (typeof server?.address !== 'function') return false;
  // A descriptor that was handed down by a supervisor has no name, and its handle has a kind.
  return typeof server.address() === 'string' || server._handle?.constructor.name === 'Pipe';
}

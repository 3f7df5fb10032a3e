import { createServer, type Socket } from 'node:net';

/** Takes connections and never says a word, as a broker that hangs. */
export interface SilentServer {
  readonly address: string;
  connections(): number;
  /** Resolves at the first byte that anybody sends. */
  readonly spokenTo: Promise<void>;
  close(): void;
}

export async function startSilentServer(): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  let heard = (): void => {};
  const spokenTo = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('data', heard);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    address: `127.0.0.1:${(server.address() as { port: number }).port}`,
    connections: () => sockets.size,
    spokenTo,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A network that can be lost without a word: nothing is closed, and nothing passes any more. */
export interface LostNetwork {
  /** Connections of an earlier time never pass on anything again; those made while it is away never do. */
  turn(isAway: boolean): void;
  /** Where it is entered, in the order of the ways. */
  readonly addresses: readonly string[];
  close(): void;
}

export interface Way {
  /** `host:port` at its end. */
  readonly to: string;
  /** At its entry; default: any. */
  readonly port?: number;
}

export async function startLostNetwork(ways: readonly Way[]): Promise<LostNetwork> {
  let time = 0;
  let isAway = false;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const servers = ways.map(({ to, port = 0 }) => {
    const server = createServer((client) => {
      const mine = time;
      keep(client);
      if (isAway) return;
      const [host, toPort] = to.split(':');
      const broker = keep(connect(Number(toPort), host));
      const pass = (from: Socket, into: Socket): void => {
        from.on('data', (bytes) => mine === time && into.write(bytes));
        from.on('close', () => mine === time && into.destroy());
      };
      pass(client, broker);
      pass(broker, client);
    });
    return server.listen(port, '127.0.0.1');
  });
  await Promise.all(servers.map((server) => server.listening || once(server, 'listening')));
  return {
    addresses: servers.map((server) => `127.0.0.1:${(server.address() as { port: number }).port}`),
    turn(away) {
      isAway = away;
      time++;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      for (const server of servers) server.close();
    },
  };
}

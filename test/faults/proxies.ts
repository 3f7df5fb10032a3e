import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { ClusterNode } from '../../scripts/services/kafka-cluster.ts';

/** A network between clients and brokers that can be cut and slowed. */
export interface Proxies {
  readonly addresses: readonly string[];
  /** From now on nothing passes, in neither direction, and no connection is closed; `heal` lets through what has waited. */
  cut(): void;
  heal(): void;
  /** What passes is late by so much, each way. */
  slow(delayMs: number): void;
  /** Ends all connections, in the middle of whatever is on them. */
  reset(): void;
  close(): Promise<void>;
}

/** One proxy for each node, on the port under which the node sends its clients there. */
export async function startProxies(nodes: readonly ClusterNode[]): Promise<Proxies> {
  let isCut = false;
  let delayMs = 0;
  const sockets = new Set<Socket>();
  const waiting: (() => void)[] = [];

  /** Passes on in order, each piece after the delay that held when it came. */
  function forward(from: Socket, to: Socket): void {
    let last: Promise<void> = Promise.resolve();
    from.on('data', (bytes) => {
      const lateBy = delayMs;
      const due =
        lateBy === 0 ? Promise.resolve() : new Promise<void>((resolve) => setTimeout(resolve, lateBy));
      last = last
        .then(() => due)
        .then(healed)
        .then(() => void to.write(bytes));
    });
    from.once('close', () => void last.then(healed).then(() => to.destroy()));
    from.on('error', () => {});
  }

  function healed(): Promise<void> | void {
    if (isCut) return new Promise((resolve) => waiting.push(resolve));
  }

  const servers = nodes.map(({ proxied }): [Server, number] => {
    const [host, port] = proxied.address.split(':');
    const server = createServer((client) => {
      const broker = connect(Number(port), host as string);
      for (const socket of [client, broker]) {
        sockets.add(socket.setNoDelay(true));
        socket.once('close', () => sockets.delete(socket));
      }
      forward(client, broker);
      forward(broker, client);
    });
    return [server, proxied.advertisedPort];
  });
  for (const [server, port] of servers) {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  }
  return {
    addresses: servers.map(([, port]) => `127.0.0.1:${port}`),
    cut() {
      isCut = true;
    },
    heal() {
      isCut = false;
      delayMs = 0;
      for (const pass of waiting.splice(0)) pass();
    },
    slow(ms) {
      delayMs = ms;
    },
    reset() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.map(([server]) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

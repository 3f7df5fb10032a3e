import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** What the server gets through it: so many messages, and then nothing more, though no connection ends; nor do its answers come back. */
export async function startFreezingLine(url: string, after: number) {
  const to = new URL(url);
  const sockets: Socket[] = [];
  let messages = 0;
  let freeze = (): void => {};
  const frozen = new Promise<void>((resolve) => {
    freeze = resolve;
  });
  const line = createServer((client) => {
    sockets.push(client.on('error', () => {}));
    if (messages >= after) return;
    const there = connect(Number(to.port), to.hostname).on('error', () => {});
    sockets.push(there);
    client.on('data', (bytes) => {
      if (messages++ < after) there.write(bytes);
      if (messages === after) freeze();
    });
    there.on('data', (bytes) => messages < after && client.write(bytes));
  }).listen(0, '127.0.0.1');
  await once(line, 'listening');
  const { port } = line.address() as { port: number };
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port }).href,
    frozen,
    /** That came until now. */
    messages: () => messages,
    close() {
      for (const socket of sockets) socket.destroy();
      line.close();
    },
  };
}

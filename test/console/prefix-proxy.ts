import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

const certificates = join(import.meta.dirname, '../adapters/kafka/fixtures/certificates');
const [key, cert] = ['server.key', 'server.pem'].map((file) => readFileSync(join(certificates, file)));

/** Speaks TLS to the outside, takes a prefix off, and leaves all else as it is, the name of the host too. */
export async function startProxy(prefix: string) {
  let port = 0;
  const server = createServer({ key, cert } as { key: Buffer; cert: Buffer }, (incoming, outgoing) => {
    const { method, headers, url = '' } = incoming;
    if (!url.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end('not mine');
    const path = url.slice(prefix.length);
    const passed = request({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forwardTo(to: number): void {
      port = to;
    },
    close: async (): Promise<void> => {
      server.closeAllConnections();
      server.close();
    },
  };
}

import { createServer } from 'node:net';

// Below the range from which systems take the ports of outgoing connections (32768 or 49152 upwards), so that a
// server that is stopped and started again finds its port still free.
const FIRST_PORT = 20_000;
const LAST_PORT = 29_999;

/** Ports of 127.0.0.1 that are free now, at random so that runs side by side rarely choose the same one. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  for (let tries = 0; ports.size < count && tries < 200; tries++) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
    if (!ports.has(port) && (await isFree(port))) ports.add(port);
  }
  if (ports.size < count) throw new Error(`no free port found between ${FIRST_PORT} and ${LAST_PORT}`);
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

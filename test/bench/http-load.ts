import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface LoadResult {
  /** Of each request, from the moment it was due: a server that falls behind does not slow the clock down. */
  readonly latenciesMs: readonly number[];
  readonly perSecond: number;
}

const connections = 64;
const request = 'GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n';

interface Connection {
  readonly socket: Socket;
  dueMs: number;
  missing: number;
}

/** An even load over connections that stay open, one request at a time on each. Rejects at a response that is not 200. */
export async function httpLoad(port: number, perSecond: number, seconds: number): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  const idle: Connection[] = [];
  const due: number[] = [];
  let failure: Error | undefined;

  const send = (connection: Connection, dueMs: number): void => {
    connection.dueMs = dueMs;
    connection.socket.write(request);
  };
  const take = (connection: Connection, chunk: Buffer): void => {
    if (connection.missing === 0) connection.missing = lengthOf(chunk);
    connection.missing -= chunk.length;
    if (connection.missing > 0) return;
    latenciesMs.push(performance.now() - connection.dueMs);
    const next = due.shift();
    if (next === undefined) idle.push(connection);
    else send(connection, next);
  };
  const all = await Promise.all(Array.from({ length: connections }, () => open(port)));
  for (const socket of all) {
    const connection: Connection = { socket, dueMs: 0, missing: 0 };
    socket.on('data', (chunk) => {
      try {
        take(connection, chunk);
      } catch (error) {
        failure = error as Error;
      }
    });
    socket.on('error', (error) => {
      failure = error;
    });
    idle.push(connection);
  }

  const started = performance.now();
  const total = perSecond * seconds;
  for (let sent = 0; sent < total; ) {
    const wanted = Math.min(total, Math.floor(((performance.now() - started) / 1000) * perSecond));
    for (; sent < wanted; sent++) {
      const dueMs = started + (sent / perSecond) * 1000;
      const connection = idle.pop();
      if (connection === undefined) due.push(dueMs);
      else send(connection, dueMs);
    }
    if (failure !== undefined) throw failure;
    await sleep(1);
  }
  for (const end = performance.now() + 10_000; latenciesMs.length < total && performance.now() < end; ) {
    if (failure !== undefined) throw failure;
    await sleep(1);
  }
  const tookMs = performance.now() - started;
  for (const socket of all) socket.destroy();
  if (latenciesMs.length < total) throw new Error('the server does not answer any more');
  return { latenciesMs, perSecond: (total / tookMs) * 1000 };
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket)).setNoDelay(true);
    socket.once('error', reject);
  });
}

/** Bytes of a response whose head is in this chunk. */
function lengthOf(chunk: Buffer): number {
  const head = chunk.subarray(0, chunk.indexOf('\r\n\r\n')).toString();
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  if (!head.startsWith('HTTP/1.1 200') || length === undefined)
    throw new Error(`unexpected response: ${head}`);
  return head.length + 4 + Number(length);
}

import {
  type Agent,
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type RequestListener,
} from 'node:http';
import { type AddressInfo, connect, type Server } from 'node:net';

/** Servers and clients for the tests of this folder. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

export function close(server: Server): Promise<void> {
  (server as { closeAllConnections?: () => void }).closeAllConnections?.();
  return new Promise((resolve) => server.close(() => resolve()));
}

/** One HTTP/1 server for as long as `use` runs. */
export async function withServer<T>(
  listener: RequestListener,
  use: (port: number) => Promise<T>,
): Promise<T> {
  const server = createServer(listener);
  try {
    return await use(await listen(server));
  } finally {
    await close(server);
  }
}

export interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export function send(
  port: number,
  headers: Record<string, string> = {},
  more: { agent?: Agent; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const method = more.body === undefined ? 'GET' : 'POST';
    const request = httpRequest(
      { port, host: '127.0.0.1', headers, method, agent: more.agent },
      (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          body += chunk;
        });
        response.on('end', () => resolve({ headers: response.headers, body }));
      },
    );
    request.on('error', reject).end(more.body);
  });
}

/** Writes raw bytes and reads until `count` responses have come, or the server closes. */
export function sendRaw(port: number, text: string, count: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    let received = '';
    const finish = () => {
      socket.destroy();
      resolve(received);
    };
    socket.on('data', (chunk) => {
      received += chunk.toString();
      if (received.split('HTTP/1.1 200').length - 1 >= count && received.endsWith('\r\n0\r\n\r\n')) finish();
    });
    socket.on('end', finish).on('error', reject);
  });
}

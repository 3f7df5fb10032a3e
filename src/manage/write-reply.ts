import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { hasBody } from './json-body.ts';
import { problem, type Reply } from './reply.ts';

/** So long an answer waits for its reader to take any more of it. */
const unreadMs = 5_000;

/** Writes an answer, without its body for HEAD. */
export function writeReply(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
  // A body that nobody reads would be read up to its end to save the connection.
  // Encoded once: the metrics of many event types are long.
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  response.writeHead(reply.status, {
    ...commonHeaders(reply, body.length),
    ...(hasBody(request) ? { connection: 'close' } : {}),
  });
  // Node looks whether bytes have left since: a slow reader stays, one that does not read is closed.
  response.socket?.setTimeout(unreadMs);
  response.end(body);
}

function commonHeaders(
  reply: Reply,
  length = Buffer.byteLength(reply.body),
): Record<string, string | number> {
  return {
    'content-type': reply.contentType,
    'content-length': length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...reply.headers,
  };
}

/** Answers what the parser refuses, and closes the connection; only closes it where an answer is already under way. */
export function refuseUnparsed(error: NodeJS.ErrnoException, socket: Socket, answering: boolean): void {
  if (answering || !socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const reply = parserProblem(error.code);
  const headers = Object.entries({ ...commonHeaders(reply), connection: 'close' });
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.end(`HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n${head}\r\n${reply.body}`, () =>
    socket.destroy(),
  );
}

function parserProblem(code: string | undefined): Reply {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return problem(431, 'The headers are larger than 8192 bytes.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return problem(408, 'The request did not arrive in time.');
    default:
      return problem(400, 'The request is not valid HTTP.');
  }
}

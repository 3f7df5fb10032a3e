import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';

/** Media type of the specification, used if the request names it. */
export const versionedJsonType = 'application/vnd.svc.actuator.v3+json';

/** An answer before it is written. */
export interface Reply {
  readonly status: number;
  readonly contentType: string;
  /** Bytes: shared by several requests. */
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export function json({ jsonType }: { readonly jsonType: string }, status: number, value: unknown): Reply {
  return { status, contentType: jsonType, body: JSON.stringify(value) };
}

/**
 * Errors are problem details (RFC 9457). `detail` never repeats content of the request; `field` is a field of its body or
 * query.
 */
export function problem(
  status: number,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
  field?: string,
): Reply {
  const title = STATUS_CODES[status];
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, field });
  return { status, contentType: 'application/problem+json', body, headers };
}

/** The JSON object of a request, or the answer to an invalid body. */
export type JsonBody = { readonly fields: Readonly<Record<string, unknown>> } | { readonly refusal: Reply };

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
}

/** No endpoint needs more. */
const mostBytes = 16 * 1024;
const jsonTypes = /^application\/(?:json|vnd\.[\w.-]+\.actuator\.v3\+json)$/;

/** Never rejects. The headers are checked before the body is read. */
export async function readJsonBody(request: IncomingMessage, askForBody: () => void): Promise<JsonBody> {
  const {
    'content-type': type = '',
    'content-encoding': encoding,
    'content-length': length,
  } = request.headers;
  if (!isJson(type) || (encoding !== undefined && encoding !== 'identity')) {
    const detail =
      'The body must be application/json or application/vnd.<name>.actuator.v3+json, in UTF-8 and not compressed.';
    return { refusal: problem(415, detail) };
  }
  if (Number(length) > mostBytes) return tooLarge;
  askForBody();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) return tooLarge;
      chunks.push(chunk as Buffer);
    }
    const value = JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { fields: value as Record<string, unknown> };
  } catch {
    // An incomplete body or invalid JSON: the same answer.
  }
  return { refusal: problem(400, 'The body is not a JSON object.') };
}

const tooLarge: JsonBody = { refusal: problem(413, `The body is larger than ${mostBytes} bytes.`) };

function isJson(contentType: string): boolean {
  const [type = '', ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase());
  return jsonTypes.test(type) && parameters.every((parameter) => /^(charset="?utf-8"?)?$/.test(parameter));
}

/** How long an answer may stall because its reader accepts no bytes. */
const unreadMs = 5_000;

/** Writes an answer, without its body for HEAD. */
export function writeReply(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
  // Node would read an unread request body to its end to reuse the connection. Encoded once: the metrics of many event types
  // are long.
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  response.writeHead(reply.status, {
    ...commonHeaders(reply, body.length),
    ...(hasBody(request) ? { connection: 'close' } : {}),
  });
  // Node checks for progress: a slow reader stays, a stalled one is disconnected.
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

/** Answers requests that the parser refuses, and closes the connection. Only closes it if an answer is in progress. */
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

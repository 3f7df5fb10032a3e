import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What one request asked for. */
export interface TokenRequest {
  readonly client: string;
  readonly secret: string;
  readonly body: URLSearchParams;
}

export interface TokenEndpoint {
  readonly url: string;
  readonly requests: TokenRequest[];
  /** What the next requests are answered with, instead of a token. */
  answer: { status: number; body: string } | undefined;
  lifetimeS: number;
  close(): Promise<void>;
}

const text = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');

/** As Kafka takes it where nobody has configured keys: a JWT without a signature. */
export function unsignedToken(subject: string, lifetimeS: number, startsInS = 0): string {
  const iat = Math.floor(Date.now() / 1000) + startsInS;
  return `${text({ alg: 'none', typ: 'JWT' })}.${text({ sub: subject, iat, exp: iat + 1 + lifetimeS })}.`;
}

/** A token endpoint for the client `app` with the secret `right-secret`. */
export async function startTokenEndpoint(): Promise<TokenEndpoint> {
  const server: Server = createServer(async (request, response) => {
    const asked = await readRequest(request);
    endpoint.requests.push(asked);
    const reply = (status: number, body: string): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    };
    if (endpoint.answer !== undefined) return reply(endpoint.answer.status, endpoint.answer.body);
    if (asked.client !== 'app' || asked.secret !== 'right-secret')
      return reply(401, JSON.stringify({ error: 'invalid_client' }));
    const access_token = unsignedToken('app', endpoint.lifetimeS);
    reply(200, JSON.stringify({ access_token, token_type: 'Bearer', expires_in: endpoint.lifetimeS }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint: TokenEndpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
    requests: [],
    answer: undefined,
    lifetimeS: 3600,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return endpoint;
}

async function readRequest(request: IncomingMessage): Promise<TokenRequest> {
  let body = '';
  for await (const chunk of request) body += chunk;
  const [, basic = ''] = (request.headers.authorization ?? '').split(' ');
  const [client = '', secret = ''] = Buffer.from(basic, 'base64')
    .toString()
    .split(':')
    .map(decodeURIComponent);
  return { client, secret, body: new URLSearchParams(body) };
}

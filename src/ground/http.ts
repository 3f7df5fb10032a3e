import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

// one request to a service, and its answer.

interface JsonRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
  /** PEM of the certificate authorities to trust instead of Node's. */
  readonly ca?: Buffer | undefined;
  /** From the first byte sent to the last byte received. */
  readonly timeoutMs: number;
  /** A longer answer is an error. */
  readonly longestAnswerBytes: number;
}

export interface JsonAnswer {
  readonly status: number;
  /** The parsed JSON; `undefined` for an answer without JSON. */
  readonly body: unknown;
}

/** Like `ask`, and rejects with `NOT_JSON`. */
export async function askJson(request: JsonRequest): Promise<JsonAnswer> {
  const { status, bytes } = await ask(request);
  try {
    return { status, body: parse(bytes) };
  } catch {
    // Proxies explain their errors in HTML.
    if (status === 200) throw coded('NOT_JSON');
    return { status, body: undefined };
  }
}

/**
 * One request on a new connection; a redirect is returned like any other answer. Rejects with an error with a `code`:
 * `TIMEOUT`, `TOO_LARGE`, or a code of Node.
 */
export async function ask({
  url,
  method,
  headers,
  body,
  ca,
  timeoutMs,
  longestAnswerBytes,
}: JsonRequest): Promise<{
  readonly status: number;
  readonly bytes: Buffer;
  readonly headers: IncomingHttpHeaders;
}> {
  const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  // Loaded here: the management server loads this file at start-up, but sends no request.
  const { request: open } = await (url.startsWith('https:') ? import('node:https') : import('node:http'));
  return new Promise((resolve, reject) => {
    const length =
      sent === undefined ? {} : { 'content-type': 'application/json', 'content-length': sent.length };
    const request = open(url, { method, ca, agent: false, headers: { ...headers, ...length } });
    const fail = (error: Error): void => {
      clearTimeout(timer);
      request.destroy();
      reject(error);
    };
    const timer = setTimeout(() => fail(coded('TIMEOUT')), timeoutMs);
    request.once('error', fail);
    request.once('response', (response) => {
      const chunks: Buffer[] = [];
      let received = 0;
      response.on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (received > longestAnswerBytes) return fail(coded('TOO_LARGE'));
        chunks.push(chunk);
      });
      response.once('error', fail);
      response.once('end', () => {
        clearTimeout(timer);
        resolve({
          ...{ status: response.statusCode ?? 0, bytes: Buffer.concat(chunks), headers: response.headers },
        });
      });
    });
    request.end(sent);
  });
}

function parse(bytes: Buffer): unknown {
  return bytes.length === 0 ? undefined : JSON.parse(bytes.toString());
}

function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}

/**
 * How svc's own commands prove to the management server that they have its token, without sending it. A process that listens at
 * the port instead learns nothing to use elsewhere.
 * 1. `Authorization: SvcProof challenge="…"`, which holds nothing of the token;
 * 2. 401 with `WWW-Authenticate: SvcProof nonce="…", process="…", proof="…"`: the server proves that it has the token, and
 * which process it is;
 * 3. `Authorization: SvcProof challenge="…", nonce="…", proof="…"`: the command proves it too, for this method and path only.
 */
const proofScheme = 'SvcProof';

interface ProofParts {
  readonly challenge: string;
  readonly nonce: string;
  /** The process that answers: host, id and start. */
  readonly process: string;
}

/** Slow on purpose, so that a token cannot be guessed from a proof. */
export function proofKey(token: string): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    scrypt(token, 'svc management', 32, (error, key) => (error ? reject(error) : resolve(key))),
  );
}

export function serverProof(key: Buffer, parts: ProofParts): string {
  return mac(key, ['server', parts.challenge, parts.nonce, parts.process]);
}

/** `path`: below the URL of the server, with its query. */
export function clientProof(key: Buffer, parts: ProofParts, method: string, path: string): string {
  return mac(key, ['client', parts.challenge, parts.nonce, parts.process, method, path]);
}

export const newChallenge = (): string => randomBytes(16).toString('hex');

export function isSameProof(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

export function proofHeader(parts: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parts).filter(([, value]) => value !== undefined);
  return `${proofScheme} ${given.map(([name, value]) => `${name}="${value}"`).join(', ')}`;
}

/** The parts of a header of this scheme; `undefined` for other schemes. */
export function proofPartsIn(header: string | undefined): ReadonlyMap<string, string> | undefined {
  if (header === undefined || header.length > 1_000 || !header.startsWith(`${proofScheme} `))
    return undefined;
  const parts = header.slice(proofScheme.length).matchAll(/([a-z-]+)="([\w.-]{1,200})"/g);
  return new Map([...parts].map(([, name, value]) => [name as string, value as string]));
}

function mac(key: Buffer, parts: readonly string[]): string {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
}

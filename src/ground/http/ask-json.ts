// http/: one request to a service, and its answer.

import { type IncomingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';

export interface JsonRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
  /** PEM of the authorities to trust instead of those of Node. */
  readonly ca?: Buffer | undefined;
  /** From the first byte sent to the last one received. */
  readonly timeoutMs: number;
  /** A longer answer is none. */
  readonly longestAnswerBytes: number;
}

export interface JsonAnswer {
  readonly status: number;
  /** What the JSON says; `undefined` for none. */
  readonly body: unknown;
}

/** The same as `ask`, and rejects with `NOT_JSON`. */
export async function askJson(request: JsonRequest): Promise<JsonAnswer> {
  const { status, bytes } = await ask(request);
  try {
    return { status, body: parse(bytes) };
  } catch {
    // A proxy in between explains its errors in HTML.
    if (status === 200) throw coded('NOT_JSON');
    return { status, body: undefined };
  }
}

/**
 * One request on a connection of its own; a redirect is an answer like any other. Rejects with an error that has a `code`:
 * `TIMEOUT`, `TOO_LARGE`, or the one of Node.
 */
export function ask({ url, method, headers, body, ca, timeoutMs, longestAnswerBytes }: JsonRequest): Promise<{
  readonly status: number;
  readonly bytes: Buffer;
  readonly headers: IncomingHttpHeaders;
}> {
  const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const open = url.startsWith('https:') ? requestHttps : requestHttp;
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

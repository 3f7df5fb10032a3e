import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the front does instead of passing a request on. */
export type Fault =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body: string;
      readonly headers?: Record<string, string>;
    }
  /** Takes the request and never answers. */
  | { readonly kind: 'hang' }
  /** Sends the head of an answer and a byte, and no more. */
  | { readonly kind: 'stall' }
  | { readonly kind: 'reset' };

export interface HttpFront {
  readonly url: string;
  /** Requests that came in. */
  readonly count: number;
  /** The latest of them. */
  readonly last: { readonly url: string; readonly headers: IncomingHttpHeaders } | undefined;
  /** The next `times` requests (default all) get this instead of an answer. */
  fail(fault: Fault, times?: number): void;
  /** All requests are passed on again, and the count is 0. */
  reset(): void;
  close(): Promise<void>;
}

/** A small HTTP server before a real one, for what real ones do rarely: throttling, hanging, resets. Passes the rest on. */
export async function startHttpFront(target: string): Promise<HttpFront> {
  let fault: Fault | undefined;
  let left = 0;
  let count = 0;
  let last: HttpFront['last'];
  const server = createServer((incoming, outgoing) => {
    count++;
    last = { url: incoming.url ?? '', headers: incoming.headers };
    if (fault === undefined || left-- <= 0) return pass(target, incoming, outgoing);
    return apply(fault, incoming, outgoing);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get count() {
      return count;
    },
    get last() {
      return last;
    },
    fail(next, times = Number.POSITIVE_INFINITY) {
      [fault, left, count] = [next, times, 0];
    },
    reset() {
      [fault, left, count] = [undefined, 0, 0];
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function pass(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { method, headers } = incoming;
  const onward = request(new URL(incoming.url ?? '/', target), { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  });
  onward.once('error', () => outgoing.destroy());
  incoming.pipe(onward);
}

function apply(fault: Fault, incoming: IncomingMessage, outgoing: ServerResponse): void {
  incoming.resume();
  if (fault.kind === 'reset') incoming.socket.resetAndDestroy();
  if (fault.kind === 'stall') outgoing.writeHead(200, { 'content-type': 'application/json' }).write('{');
  if (fault.kind === 'answer')
    outgoing
      .writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
      .end(fault.body);
}

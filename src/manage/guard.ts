import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isLoopback } from '../ground/addresses.ts';
import { printable } from '../observe/printable.ts';
import { problem, type Reply } from './reply.ts';

/** For {@link readsNeedToken}: where a server listens, and what stands before it. */
export type Place = Pick<GuardPolicy, 'loopback' | 'publicUrl'>;

/** Behind a proxy everybody looks local: the address says nothing of who asks. */
export function readsNeedToken({ loopback, publicUrl }: Place): boolean {
  return !loopback || publicUrl !== undefined;
}

export interface GuardPolicy {
  /** The server is reachable from this host only: a `Host` that is not local can only come from DNS rebinding. */
  readonly loopback: boolean;
  readonly token: string | undefined;
  /** For what acts; it reads as well. Default: `token`, which then does both. */
  readonly actionToken?: string | undefined;
  /** How a proxy in front is reached: its host is taken as well, and its origin. */
  readonly publicUrl?: string | undefined;
}

/**
 * What is wrong with the request itself, whoever sends it: the form (400), the host (421), the origin (403).
 *
 * @param isPage it asks for a page without data, which a link on another site may open
 */
export function checkRequest(
  request: IncomingMessage,
  policy: GuardPolicy,
  isPage = false,
): Reply | undefined {
  const hosts = headerValues(request, 'host');
  // Node keeps the first of several; a proxy in front may have looked at the last.
  if (hosts.length !== 1) return problem(400, 'The request needs exactly one Host header.');
  const host = hosts[0] as string;
  const name = hostName(host);
  if (name === undefined) return problem(400, 'The Host header is not a host.');
  if (!request.url?.startsWith('/')) return problem(400, 'The request target must be a path.');
  const proxy = policy.publicUrl === undefined ? undefined : new URL(policy.publicUrl);
  if (policy.loopback && !isLoopback(name) && name !== proxy?.hostname)
    return problem(
      421,
      'This server answers under a loopback name only, and that of management.server.public-url.',
    );
  if (
    !(isPage && isNavigation(request)) &&
    isCrossSite(request, [`http://${host.toLowerCase()}`, proxy?.origin])
  )
    return problem(403, 'Requests from other sites are not allowed.');
  return undefined;
}

/** `missing` and `wrong` are told apart so that health can answer its status to whoever asks without a token. */
export type Credentials = 'valid' | 'missing' | 'wrong';

export function checkCredentials(request: IncomingMessage, token: string | undefined): Credentials {
  const headers = headerValues(request, 'authorization');
  if (headers.length === 0) return 'missing';
  const given = headers.length === 1 ? /^Bearer +(\S+)$/i.exec(headers[0] as string)?.[1] : undefined;
  if (given === undefined || token === undefined) return 'wrong';
  return timingSafeEqual(digest(given), digest(token)) ? 'valid' : 'wrong';
}

/** What a request may do, by the token that it brings along. */
export interface Rights {
  readonly read: Credentials;
  readonly act: Credentials;
}

export function rightsOf(request: IncomingMessage, { token, actionToken }: GuardPolicy): Rights {
  const act = checkCredentials(request, actionToken ?? token);
  return { act, read: act === 'valid' ? act : checkCredentials(request, token) };
}

/** Whoever may read and not act needs another token, not a better one. */
export function mayNotAct({ read, act }: Rights): Reply {
  return read === 'valid'
    ? problem(403, 'This endpoint needs the token of management.server.action-token.')
    : unauthorized(act);
}

/** For the log: where a request comes from, with which token, and whom it names itself (`From`). */
export function whoAsks(
  { socket, headers }: IncomingMessage,
  { actionToken }: GuardPolicy,
  { act, read }: Rights,
): string {
  const reading = read === 'valid' ? 'with management.server.token' : 'without a token that is right';
  const acting = actionToken === undefined ? reading : 'with management.server.action-token';
  const from = typeof headers.from === 'string' ? `, From: ${printable(headers.from.slice(0, 100))}` : '';
  return `${socket.remoteAddress ?? 'a client that has left'} ${act === 'valid' ? acting : reading}${from}`;
}

export function unauthorized(credentials: Credentials): Reply {
  const challenge =
    credentials === 'wrong' ? 'Bearer realm="svc", error="invalid_token"' : 'Bearer realm="svc"';
  return problem(401, 'This endpoint needs a bearer token.', { 'www-authenticate': challenge });
}

/** Host name in lower case, without port, brackets and the trailing dot; `undefined` where it is no host. */
function hostName(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase().replace(/\.$/, '');
}

/** Somebody follows a link: no script of the other site sees the answer, nor shows it in a frame. */
function isNavigation({ method, headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document' &&
    headers.origin === undefined
  );
}

function isCrossSite(request: IncomingMessage, own: readonly (string | undefined)[]): boolean {
  const site = request.headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true;
  const { origin } = request.headers;
  return origin !== undefined && !own.includes(origin.toLowerCase());
}

function headerValues(request: IncomingMessage, name: string): string[] {
  const raw = request.rawHeaders;
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1]?.toLowerCase() === name);
}

/** Equal lengths are what `timingSafeEqual` needs, and a length says nothing here. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

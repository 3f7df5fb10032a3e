import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { isLoopback } from '../ground/addresses.ts';
import { systemClock } from '../ground/clock.ts';
import {
  clientProof,
  isSameProof,
  type ProofParts,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../ground/http.ts';
import { printable } from '../observe/logger.ts';
import { hasBody, problem, type Reply } from './reply.ts';

/** For {@link readsNeedToken}: where a server listens, and what stands before it. */
type Place = Pick<GuardPolicy, 'loopback' | 'publicUrl'>;

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
type Credentials = 'valid' | 'missing' | 'wrong';

function checkCredentials(request: IncomingMessage, token: string | undefined): Credentials {
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

/** A nonce is good for so long, once. */
const nonceMs = 30_000;
/** Nonces that were used and are not over yet: only whoever has a token uses any. */
const mostUsed = 1_000;

/** Proves to svc's own commands that this server has their token, and lets them prove the same: `token-proof.ts`. */
export interface Prover {
  /** The answer to a challenge; `undefined`: the request holds none, or there is no token to prove. */
  answer(request: IncomingMessage): Promise<Reply | undefined>;
  /** What a request may do by its proof; `undefined`: it holds none. */
  rightsOf(request: IncomingMessage): Promise<Rights | undefined>;
}

/** @param process names this process, as its process file does */
export function createProver({ token, actionToken }: GuardPolicy, process: string): Prover {
  const secret = randomBytes(32);
  const used = new Map<string, number>();
  const keyOf = async (text: string | undefined): Promise<Buffer | undefined> =>
    text === undefined ? undefined : proofKey(text);
  let keys: Promise<readonly [read: Buffer | undefined, act: Buffer | undefined]> | undefined;
  // Made at the first challenge: most processes never get any.
  const keysOf = (): NonNullable<typeof keys> => {
    keys ??= Promise.all([keyOf(token), keyOf(actionToken)]);
    return keys;
  };
  const nonceOf = (untilMs: number, challenge: string): string =>
    `${untilMs}.${createHmac('sha256', secret).update(`${untilMs} ${challenge}`).digest('hex')}`;

  /** Of this server, not over, and not used before. */
  function takeNonce(nonce: string, challenge: string): boolean {
    const [untilMs, nowMs] = [Number.parseInt(nonce, 10), systemClock.monotonic()];
    if (!isSameProof(nonce, nonceOf(untilMs, challenge)) || untilMs < nowMs) return false;
    for (const [each, overMs] of used) if (overMs < nowMs) used.delete(each);
    if (used.has(nonce) || used.size >= mostUsed) return false;
    used.set(nonce, untilMs);
    return true;
  }

  return {
    async answer({ headers }) {
      const given = proofPartsIn(headers.authorization);
      const challenge = given?.get('challenge');
      if (challenge === undefined || given?.has('proof')) return undefined;
      const [read, act] = await keysOf();
      if (read === undefined && act === undefined) return undefined;
      const nonce = nonceOf(Math.ceil(systemClock.monotonic()) + nonceMs, challenge);
      const parts: ProofParts = { challenge, nonce, process };
      const proofs = {
        proof: read && serverProof(read, parts),
        'action-proof': act && serverProof(act, parts),
      };
      return problem(401, 'Prove the token as well.', {
        'www-authenticate': proofHeader({ nonce, process, ...proofs }),
      });
    },

    async rightsOf(request) {
      const given = proofPartsIn(request.headers.authorization);
      const [challenge, nonce, proof] = ['challenge', 'nonce', 'proof'].map((name) => given?.get(name));
      if (challenge === undefined || nonce === undefined || proof === undefined) return undefined;
      const [read, act] = await keysOf();
      const parts: ProofParts = { challenge, nonce, process };
      const isBy = (key: Buffer | undefined): boolean =>
        key !== undefined &&
        isSameProof(proof, clientProof(key, parts, request.method ?? '', request.url ?? ''));
      const acts = isBy(act ?? read);
      // A body is not proven.
      if (hasBody(request) || !(acts || isBy(read)) || !takeNonce(nonce, challenge))
        return { read: 'wrong', act: 'wrong' };
      return { read: 'valid', act: acts ? 'valid' : 'wrong' };
    },
  };
}

/** Connections at once. */
export const mostConnections = 64;
/** Of them, those of one address. */
export const mostOfOneAddress = 32;
/** Requests of a connection that wait for the answer before theirs. No client of ours sends any. */
export const mostWaiting = 8;
/** Answers that nobody has read yet, of all connections. */
export const mostUnsentBytes = 32 * 1024 * 1024;

interface PlacesPlace {
  readonly address: string | undefined;
  isBusy: boolean;
  /** What begins the requests that came behind it. */
  readonly waiting: (() => void)[];
  /** Only a connection whose request had the rights to it stays open after the answer. */
  isAnswered: boolean;
}

/**
 * Who may be connected to the management server. One that is idle keeps nobody out: the one that has been so for the longest time
 * makes room, those that have not shown any rights first.
 */
export class Places {
  /** Idle for the longest time first. */
  readonly #places = new Map<Socket, PlacesPlace>();

  /** Closes the connection where each place is that of a request under way. */
  enter(socket: Socket): void {
    const { remoteAddress: address } = socket;
    const isOfAddress = (place: PlacesPlace): boolean => place.address === address;
    const ofAddress = [...this.#places.values()].filter(isOfAddress).length;
    const hasRoom =
      ofAddress >= mostOfOneAddress
        ? this.#makeRoom(isOfAddress)
        : this.#places.size < mostConnections || this.#makeRoom(() => true);
    if (!hasRoom) {
      socket.destroy();
      return;
    }
    this.#places.set(socket, { address, isBusy: false, waiting: [], isAnswered: false });
    socket.on('close', () => this.#places.delete(socket));
  }

  /** One request of a connection at a time: `begin` is called when it is its turn, or never where too many wait. */
  request(socket: Socket, begin: () => void): void {
    const place = this.#places.get(socket);
    if (place === undefined || socket.destroyed) return;
    if (!place.isBusy) {
      place.isBusy = true;
      begin();
    } else if (place.waiting.length < mostWaiting) place.waiting.push(begin);
    else socket.destroy();
  }

  /** An answer was written. Where too much waits for readers, connections that have waited longest are closed, this one last. */
  answerBegins(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    this.#places.delete(socket);
    this.#places.set(socket, place);
    let unsent = 0;
    for (const each of this.#places.keys()) unsent += each.writableLength;
    for (const each of [...this.#places.keys()]) {
      if (unsent <= mostUnsentBytes || each === socket) return;
      if (each.writableLength === 0) continue;
      unsent -= each.writableLength;
      each.destroy();
    }
  }

  requestEnds(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    place.isAnswered = true;
    this.#places.delete(socket);
    this.#places.set(socket, place);
    const next = socket.writable ? place.waiting.shift() : undefined;
    if (next === undefined) place.isBusy = false;
    else next();
  }

  isAnswering(socket: Socket): boolean {
    return this.#places.get(socket)?.isBusy ?? false;
  }

  #makeRoom(isCandidate: (place: PlacesPlace) => boolean): boolean {
    const idle = [...this.#places].filter(([, place]) => !place.isBusy && isCandidate(place));
    const [longest] = idle.find(([, { isAnswered }]) => !isAnswered) ?? idle[0] ?? [];
    if (longest === undefined) return false;
    this.#places.delete(longest);
    longest.destroy();
    return true;
  }
}

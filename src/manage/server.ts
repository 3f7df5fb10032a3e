// manage/: health and metrics over HTTP. Sees svc through `controls.ts` only.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { EventEmitter } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';
import { isLoopback } from '../ground/addresses.ts';
import { ownStamp, stampText } from '../ground/claims.ts';
import { systemClock } from '../ground/clock.ts';
import type { ErrorCode } from '../ground/errors.ts';
import {
  clientProof,
  isSameProof,
  type ProofParts,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../ground/http.ts';
import { startOwnWork } from '../ground/lifecycle.ts';
import { minTokenLength } from '../ground/management.ts';
import { type Logger, printable, type QuietLog, throttledLog } from '../observe/logger.ts';
import { type ActionLimits, createActionLimits, type Route } from './actions.ts';
import type { Controls } from './controls.ts';
import {
  hasBody,
  problem,
  type Reply,
  readJsonBody,
  refuseUnparsed,
  versionedJsonType,
  writeReply,
} from './reply.ts';
import { exposedRoutes, type ShowDetails } from './routes.ts';

export interface ManagementOptions {
  /** 0 takes a free port. */
  readonly port: number;
  /** So many ports from `port` on are tried where others have them. Default: 1. */
  readonly portTries?: number;
  /** Others like this one are expected to have the first ports, which needs no warning. Default: false. */
  readonly isOneOfSeveral?: boolean;
  /** Loopback, or an address for which `token` is needed. */
  readonly address: string;
  /** Bearer token, at least 16 characters. */
  readonly token: string | undefined;
  /** Bearer token for what acts. Default: `token`. */
  readonly actionToken?: string | undefined;
  /** As {@link GuardPolicy.publicUrl}. */
  readonly publicUrl?: string | undefined;
  /** Default: none. */
  readonly excludedActions?: readonly string[];
  /** Endpoint ids, or `*`. With none of them there is no server. */
  readonly exposure: readonly string[];
  readonly showDetails: ShowDetails;
  /** `/actuator/health/readiness` is that of the broker. Default: false. */
  readonly readinessNeedsBroker?: boolean;
}

export interface ManagementServer {
  readonly address: string;
  readonly port: number;
  /** Stops at once; requests under way are cut off. */
  close(): Promise<void>;
}

/** A request of this server is small and quick. `checkRequest` looks at the Host header, and says more than Node does. */
const serverLimits: ServerOptions = {
  maxHeaderSize: 8192,
  headersTimeout: 3000,
  requestTimeout: 5000,
  connectionsCheckingInterval: 500,
  requireHostHeader: false,
};
/** A connection ends after so many requests; a scraper opens the next one. */
const mostRequests = 1_000;

/**
 * Starts the management server; resolves when it listens. It never keeps the process alive, and when it cannot listen the
 * application runs on without it: one warning, `undefined`. Worker threads have none, their main thread has.
 */
export async function startManagementServer(
  options: ManagementOptions,
  controls: Controls,
  logger: Logger,
  mainThread: boolean = isMainThread,
): Promise<ManagementServer | undefined> {
  if (!mainThread || options.exposure.length === 0) return undefined;
  const loopback = isLoopback(options.address);
  const { publicUrl } = options;
  if (readsNeedToken({ loopback, publicUrl }) && (options.token?.length ?? 0) < minTokenLength) {
    const why = loopback
      ? `behind the proxy of ${publicUrl} every client looks local`
      : `the address ${options.address} is not loopback`;
    logger.warn(
      `management server not started: ${why}, which needs a token of at least ${minTokenLength} characters`,
      { code: 'SVC_MANAGE_TOKEN_REQUIRED' satisfies ErrorCode },
    );
    return undefined;
  }
  const policy = { loopback, token: options.token, actionToken: options.actionToken, publicUrl };
  const server = createManagementServer({
    routes: exposedRoutes(options.exposure),
    policy,
    prover: createProver(policy, stampText(ownStamp())),
    excludedActions: options.excludedActions ?? [],
    showDetails: options.showDetails,
    readinessNeedsBroker: options.readinessNeedsBroker ?? false,
    controls,
    logger,
    limits: createActionLimits(systemClock),
    sayRefused: throttledLog(logger, systemClock, { level: 'warn' }),
  });
  try {
    await listenNear(server, options);
  } catch (error) {
    logger.warn(`management server not started: ${listenFailure(error as NodeJS.ErrnoException, options)}`, {
      code: 'SVC_MANAGE_LISTEN_FAILED' satisfies ErrorCode,
    });
    return undefined;
  }
  server.on('error', (error) => logger.warn(`management server: ${error.message}`));
  const bound = server.address() as AddressInfo;
  if (options.port !== 0 && bound.port !== options.port && !options.isOneOfSeveral)
    logger.warn(
      `port ${options.port} of ${options.address} is in use: the management server takes port ${bound.port} (set management.server.port)`,
    );
  return { address: bound.address, port: bound.port, close: () => close(server) };
}

function createManagementServer(respondOptions: RespondOptions): Server {
  const places = new Places();
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request;
    const askForBody = (): void => {
      if (request.headers.expect !== undefined) response.writeContinue();
    };
    places.request(socket, () => {
      // That of the answer before it, for which `writeReply` has set a time.
      socket.setTimeout(0);
      response.on('close', () => places.requestEnds(socket));
      startOwnWork(async () => {
        writeReply(request, response, await respond(request, respondOptions, askForBody));
        places.answerBegins(socket);
      }).catch(() => response.destroy());
    });
  };
  const server = createServer(serverLimits, onRequest);
  server.maxRequestsPerSocket = mostRequests;
  // Instrumentations of HTTP patch `emit` of the class: scrapes and probes are no requests of the application.
  server.emit = EventEmitter.prototype.emit;
  // No endpoint reads a body before it has looked at the headers, and it asks for it itself.
  server.on('checkContinue', onRequest);
  server.on('connection', (socket) => {
    socket.unref();
    places.enter(socket);
  });
  // An error text of the parser must not come before answers under way.
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
    refuseUnparsed(error, socket, places.isAnswering(socket)),
  );
  server.unref();
  return server;
}

async function listenNear(server: Server, options: ManagementOptions): Promise<void> {
  const { address, portTries = 1 } = options;
  const last = options.port + portTries - 1;
  for (let port = options.port; ; port++) {
    try {
      return await listen(server, port, address);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || port === last) throw error;
    }
  }
}

function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // Exclusive: processes of a cluster would else take turns at one port, each with its own counts and its own health.
    server.listen({ port, host: address, exclusive: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function listenFailure(error: NodeJS.ErrnoException, options: ManagementOptions): string {
  const { port, portTries = 1, address } = options;
  const ports =
    portTries === 1
      ? `port ${port} of ${address} is`
      : `ports ${port} to ${port + portTries - 1} of ${address} are`;
  return error.code === 'EADDRINUSE'
    ? `${ports} in use (management.server.port; 0 takes a free one)`
    : `cannot listen on port ${port} of ${address} (${error.code ?? error.name})`;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

interface RespondOptions {
  readonly routes: readonly Route[];
  readonly policy: GuardPolicy;
  readonly prover: Prover;
  /** Actions that are switched off. */
  readonly excludedActions: readonly string[];
  readonly showDetails: ShowDetails;
  readonly readinessNeedsBroker: boolean;
  readonly controls: Controls;
  readonly logger: Logger;
  readonly limits: ActionLimits;
  /** An action that was asked for, and is not done. */
  readonly sayRefused: QuietLog;
}

/**
 * The answer to one request; never rejects. Whoever has no right to more than the bare status of health keeps no connection.
 *
 * @param askForBody tells a client that waits for it (`Expect: 100-continue`) to send its body
 */
async function respond(
  request: IncomingMessage,
  options: RespondOptions,
  askForBody: () => void,
): Promise<Reply> {
  const { policy } = options;
  const rights = (await options.prover.rightsOf(request)) ?? rightsOf(request, policy);
  const isPage = options.routes.some((route) => route.isPage && route.path === pathOf(request));
  const refusal = checkRequest(request, policy, isPage);
  const reply =
    refusal ?? (await options.prover.answer(request)) ?? (await answer(request, rights, options, askForBody));
  const mayStay = refusal === undefined && (!readsNeedToken(policy) || rights.read === 'valid');
  return mayStay ? reply : { ...reply, headers: { ...reply.headers, connection: 'close' } };
}

/**
 * What is wrong with the request comes first, then who asks, and only then which
 * paths exist, so that nobody without a token learns them: 400, 421, 403, 401, 404, 405, 200.
 */
async function answer(
  request: IncomingMessage,
  rights: Rights,
  options: RespondOptions,
  askForBody: () => void,
): Promise<Reply> {
  const { policy, routes } = options;
  const path = pathOf(request);
  const candidates = routes.filter((route) => route.path === path);
  const { read: credentials } = rights;
  const open = credentials === 'missing' && candidates.some((route) => route.open);
  if (readsNeedToken(policy) && credentials !== 'valid' && !open) return unauthorized(credentials);

  if (candidates.length === 0) return problem(404, 'There is no such endpoint, or it is not exposed.');
  const route = candidates.find(
    ({ method }) => method === request.method || (method === 'GET' && request.method === 'HEAD'),
  );
  if (route === undefined)
    return problem(405, 'This endpoint does not support this method.', { allow: allowed(candidates) });
  const reply = await handled(request, route, rights, options, askForBody);
  if (route.action !== undefined && reply.status >= 400) {
    const { detail } = JSON.parse(String(reply.body)) as { readonly detail: string };
    const by = whoAsks(request, policy, rights);
    options.sayRefused(
      `${route.action} ${reply.status}`,
      `management: ${route.action}, requested by ${by}, is refused: ${reply.status}, ${detail}`,
    );
  }
  return reply;
}

async function handled(
  request: IncomingMessage,
  route: Route,
  rights: Rights,
  options: RespondOptions,
  askForBody: () => void,
): Promise<Reply> {
  const { policy, routes, controls, showDetails, limits } = options;
  const isAction = route.method !== 'GET';
  const mayNot = isAction && rights.act !== 'valid' ? mayNotAct(rights) : undefined;
  if (mayNot !== undefined && (route.hasDryRun !== true || rights.read === 'wrong')) return mayNot;
  if (route.action !== undefined && options.excludedActions.includes(route.action))
    return problem(403, `${route.action} is switched off by management.actions.exclude.`);

  const path = pathOf(request);
  const trusted = rights.read === 'valid' || (!readsNeedToken(policy) && showDetails === 'always');
  try {
    return await route.handle({
      ...{ controls, routes, limits, mayNotAct: mayNot },
      query: new URLSearchParams((request.url as string).slice(path.length)),
      hasBody: hasBody(request),
      by: whoAsks(request, policy, rights),
      readBody: () => readJsonBody(request, askForBody),
      readinessNeedsBroker: options.readinessNeedsBroker,
      showDetails: showDetails !== 'never' && trusted,
      jsonType: acceptsVersioned(request.headers.accept) ? versionedJsonType : 'application/json',
    });
  } catch (error) {
    options.logger.error('a management endpoint failed', { path, error: (error as Error)?.message });
    return problem(500, 'The endpoint failed; see the log of the application.');
  }
}

function pathOf({ url }: IncomingMessage): string {
  return (url as string).split('?', 1)[0] as string;
}

function allowed(routes: readonly Route[]): string {
  return [...new Set(routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))].join(
    ', ',
  );
}

/** Only the name itself asks for it: a wildcard takes plain JSON as well. `;q=0` declines it. */
function acceptsVersioned(accept: string | undefined): boolean {
  return (accept ?? '').split(',').some((part) => {
    const [type, ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    return type === versionedJsonType && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** For {@link readsNeedToken}: where a server listens, and what stands before it. */
type Place = Pick<GuardPolicy, 'loopback' | 'publicUrl'>;

/** Behind a proxy every client looks local: the address says nothing of who asks. */
function readsNeedToken({ loopback, publicUrl }: Place): boolean {
  return !loopback || publicUrl !== undefined;
}

interface GuardPolicy {
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
function checkRequest(request: IncomingMessage, policy: GuardPolicy, isPage = false): Reply | undefined {
  const hosts = headerValues(request, 'host');
  // Node keeps the first of several; a proxy in front may have looked at the last.
  if (hosts.length !== 1) return problem(400, 'The request needs exactly one Host header.');
  const host = hosts[0] as string;
  const name = hostName(host);
  if (name === undefined) return problem(400, 'The Host header is not a hostname.');
  if (!request.url?.startsWith('/')) return problem(400, 'The request target must be a path.');
  const proxy = policy.publicUrl === undefined ? undefined : new URL(policy.publicUrl);
  if (policy.loopback && !isLoopback(name) && name !== proxy?.hostname)
    return problem(
      421,
      'This server answers only under a loopback name or the name of management.server.public-url.',
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
interface Rights {
  readonly read: Credentials;
  readonly act: Credentials;
}

function rightsOf(request: IncomingMessage, { token, actionToken }: GuardPolicy): Rights {
  const act = checkCredentials(request, actionToken ?? token);
  return { act, read: act === 'valid' ? act : checkCredentials(request, token) };
}

/** Whoever may read and not act needs another token, not a better one. */
function mayNotAct({ read, act }: Rights): Reply {
  return read === 'valid'
    ? problem(403, 'This endpoint needs the token of management.server.action-token.')
    : unauthorized(act);
}

/** For the log: where a request comes from, with which token, and whom it names itself (`From`). */
function whoAsks(
  { socket, headers }: IncomingMessage,
  { actionToken }: GuardPolicy,
  { act, read }: Rights,
): string {
  const reading = read === 'valid' ? 'with management.server.token' : 'without a valid token';
  const acting = actionToken === undefined ? reading : 'with management.server.action-token';
  const from = typeof headers.from === 'string' ? `, From: ${printable(headers.from.slice(0, 100))}` : '';
  return `${socket.remoteAddress ?? 'a disconnected client'} ${act === 'valid' ? acting : reading}${from}`;
}

function unauthorized(credentials: Credentials): Reply {
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

/** Proves to svc's own commands that this server has their token, and lets them prove the same (`ground/http.ts`). */
interface Prover {
  /** The answer to a challenge; `undefined`: the request holds none, or there is no token to prove. */
  answer(request: IncomingMessage): Promise<Reply | undefined>;
  /** What a request may do by its proof; `undefined`: it holds none. */
  rightsOf(request: IncomingMessage): Promise<Rights | undefined>;
}

/** @param process names this process, as its process file does */
function createProver({ token, actionToken }: GuardPolicy, process: string): Prover {
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
class Places {
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

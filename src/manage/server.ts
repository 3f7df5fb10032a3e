// manage/: health and metrics over HTTP. Sees svc through `controls.ts` only.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { EventEmitter } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';
import { isLoopback } from '../ground/addresses.ts';
import { ownStamp, stampText } from '../ground/claims.ts';
import { clock } from '../ground/clock.ts';
import type { ErrorCode } from '../ground/errors.ts';
import {
  clientProof,
  isSameProof,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../ground/http.ts';
import { startOwnWork } from '../ground/lifecycle.ts';
import { minTokenLength, type ShowDetails } from '../ground/management.ts';
import { logger, printable, type ThrottledLog, throttledLog } from '../observe/logger.ts';
import type { Controls } from './controls.ts';
import { type JsonBody, problem, type Reply, versionedJsonType } from './reply.ts';
import { type ExposedRoute, exposedRoutes } from './routes.ts';

interface ManagementOptions {
  /** 0 takes a free port. */
  readonly port: number;
  /** Number of ports to try from `port` on if they are taken. Default: 1. */
  readonly portTries?: number;
  /** Suppresses the warning about taken ports, as several such servers are expected. Default: false. */
  readonly isOneOfSeveral?: boolean;
  /** Loopback, or an address that requires `token`. */
  readonly address: string;
  /** Bearer token, at least 16 characters. */
  readonly token: string | undefined;
  /** Bearer token for actions. Default: `token`. */
  readonly actionToken?: string | undefined;
  /** As {@link GuardPolicy.publicUrl}. */
  readonly publicUrl?: string | undefined;
  /** Default: none. */
  readonly excludedActions?: readonly string[];
  /** Endpoint ids, or `*`. Without any there is no server. */
  readonly exposure: readonly string[];
  readonly showDetails: ShowDetails;
  /** Whether `/actuator/health/readiness` includes the broker. Default: false. */
  readonly readinessNeedsBroker?: boolean;
}

export interface ManagementServer {
  readonly address: string;
  readonly port: number;
  /** Stops at once; requests in progress are cut off. */
  close(): Promise<void>;
}

/** Requests to this server are small and fast. `checkRequest` checks the Host header, with a better message than Node's. */
const serverLimits: ServerOptions = {
  maxHeaderSize: 8192,
  headersTimeout: 3000,
  requestTimeout: 5000,
  connectionsCheckingInterval: 500,
  requireHostHeader: false,
};
/** A connection ends after this number of requests; a scraper opens another one. */
const maxRequests = 1_000;

/**
 * Starts the management server; resolves when it listens. It is unref'd. If it cannot listen, it logs one warning and returns
 * `undefined`, and the application continues. Only for the main thread, not for worker threads.
 */
export async function startManagementServer(
  options: ManagementOptions,
  controls: Controls,
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
    sayRefused: throttledLog({ level: 'warn' }),
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
  const connections = new Connections();
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request;
    const askForBody = (): void => {
      if (request.headers.expect !== undefined) response.writeContinue();
    };
    connections.request(socket, () => {
      // Resets the limit that `writeReply` has set for the previous answer.
      socket.setTimeout(0);
      response.on('close', () => connections.requestEnds(socket));
      startOwnWork(async () => {
        writeReply(request, response, await respond(request, respondOptions, askForBody));
        connections.answerBegins(socket);
      }).catch(() => response.destroy());
    });
  };
  const server = createServer(serverLimits, onRequest);
  server.maxRequestsPerSocket = maxRequests;
  // HTTP instrumentations patch `emit` of the class: scrapes and probes are not requests of the application.
  server.emit = EventEmitter.prototype.emit;
  // Endpoints check the headers first, and request the body themselves.
  server.on('checkContinue', onRequest);
  server.on('connection', (socket) => {
    socket.unref();
    connections.enter(socket);
  });
  // An error text of the parser must not precede answers in progress.
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
    refuseUnparsed(error, socket, connections.isAnswering(socket)),
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
    // Exclusive: otherwise the processes of a cluster would share one port, each with its own counts and health.
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
  readonly routes: readonly ExposedRoute[];
  readonly policy: GuardPolicy;
  readonly prover: Prover;
  readonly excludedActions: readonly string[];
  readonly showDetails: ShowDetails;
  readonly readinessNeedsBroker: boolean;
  readonly controls: Controls;
  readonly sayRefused: ThrottledLog;
}

/**
 * The answer to one request; never rejects. A client with access only to the bare health status gets no keep-alive.
 * @param askForBody tells a client that waits (`Expect: 100-continue`) to send its body
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
 * The order of checks hides existing paths from clients without a token: the form of the request, then its rights, then the
 * path. Statuses in order: 400, 421, 403, 401, 404, 405, 200.
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
  route: ExposedRoute,
  rights: Rights,
  options: RespondOptions,
  askForBody: () => void,
): Promise<Reply> {
  const { policy, controls, showDetails } = options;
  const isAction = route.method !== 'GET';
  const mayNot = isAction && rights.act !== 'valid' ? mayNotAct(rights) : undefined;
  if (mayNot !== undefined && (route.hasDryRun !== true || rights.read === 'wrong')) return mayNot;
  if (route.action !== undefined && options.excludedActions.includes(route.action))
    return problem(403, `${route.action} is switched off by management.actions.exclude.`);

  const path = pathOf(request);
  const trusted = rights.read === 'valid' || (!readsNeedToken(policy) && showDetails === 'always');
  try {
    return await route.handle({
      ...{ controls, mayNotAct: mayNot },
      query: new URLSearchParams((request.url as string).slice(path.length)),
      hasBody: hasBody(request),
      by: whoAsks(request, policy, rights),
      readBody: () => readJsonBody(request, askForBody),
      readinessNeedsBroker: options.readinessNeedsBroker,
      showDetails: showDetails !== 'never' && trusted,
      jsonType: acceptsVersioned(request.headers.accept) ? versionedJsonType : 'application/json',
    });
  } catch (error) {
    logger.error('a management endpoint failed', { path, error: (error as Error)?.message });
    return problem(500, 'The endpoint failed; see the log of the application.');
  }
}

function pathOf({ url }: IncomingMessage): string {
  return (url as string).split('?', 1)[0] as string;
}

function allowed(routes: readonly ExposedRoute[]): string {
  return [...new Set(routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))].join(
    ', ',
  );
}

/** Only the exact name requests it: a wildcard gets plain JSON. `;q=0` declines it. */
function acceptsVersioned(accept: string | undefined): boolean {
  return (accept ?? '').split(',').some((part) => {
    const [type, ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    return type === versionedJsonType && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** For {@link readsNeedToken}: the address of the server, and the proxy in front. */
type Place = Pick<GuardPolicy, 'loopback' | 'publicUrl'>;

/** Behind a proxy every client looks local. */
function readsNeedToken({ loopback, publicUrl }: Place): boolean {
  return !loopback || publicUrl !== undefined;
}

interface GuardPolicy {
  /** The server is reachable from this host only: another `Host` can only come from DNS rebinding. */
  readonly loopback: boolean;
  readonly token: string | undefined;
  /** For actions and reading. Default: `token`, which then allows both. */
  readonly actionToken?: string | undefined;
  /** The URL of a proxy in front: its host and its origin are accepted as well. */
  readonly publicUrl?: string | undefined;
}

/**
 * Problems of the request itself, for any client: the form (400), the host (421), the origin (403).
 * @param isPage the request is for a page without data, which other sites may link to
 */
function checkRequest(request: IncomingMessage, policy: GuardPolicy, isPage = false): Reply | undefined {
  const hosts = headerValues(request, 'host');
  // Node keeps the first of several; a proxy in front may have checked the last.
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

/** `missing` and `wrong` differ: without a token health still answers with its status. */
type Credentials = 'valid' | 'missing' | 'wrong';

function checkCredentials(request: IncomingMessage, token: string | undefined): Credentials {
  const headers = headerValues(request, 'authorization');
  if (headers.length === 0) return 'missing';
  const given = headers.length === 1 ? /^Bearer +(\S+)$/i.exec(headers[0] as string)?.[1] : undefined;
  if (given === undefined || token === undefined) return 'wrong';
  return timingSafeEqual(digest(given), digest(token)) ? 'valid' : 'wrong';
}

interface Rights {
  readonly read: Credentials;
  readonly act: Credentials;
}

function rightsOf(request: IncomingMessage, { token, actionToken }: GuardPolicy): Rights {
  const act = checkCredentials(request, actionToken ?? token);
  return { act, read: act === 'valid' ? act : checkCredentials(request, token) };
}

/** A client with read access needs another token. */
function mayNotAct({ read, act }: Rights): Reply {
  return read === 'valid'
    ? problem(403, 'This endpoint needs the token of management.server.action-token.')
    : unauthorized(act);
}

/** For the log: the origin of a request, its token, and its `From` header. */
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

/** Host name in lower case, without port, brackets and the trailing dot; `undefined` for an invalid host. */
function hostName(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase().replace(/\.$/, '');
}

/** Follows a link: the other site cannot read the answer by script, nor show it in a frame. */
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

/** `timingSafeEqual` requires equal lengths. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A nonce is valid once, for this time. */
const nonceMs = 30_000;
/** Used nonces that have not expired: only clients with a token add any. */
const maxNonces = 1_000;

/** Proves to svc's own commands that this server has their token, and checks their proof (`ground/http.ts`). */
interface Prover {
  /** The answer to a challenge; `undefined` without a challenge, and if the server has no token. */
  answer(request: IncomingMessage): Promise<Reply | undefined>;
  /** The rights of a request by its proof; `undefined` without a proof. */
  rightsOf(request: IncomingMessage): Promise<Rights | undefined>;
}

/** @param process names this process, as in its process file */
function createProver({ token, actionToken }: GuardPolicy, process: string): Prover {
  const secret = randomBytes(32);
  const used = new Map<string, number>();
  const keyOf = async (text: string | undefined): Promise<Buffer | undefined> =>
    text === undefined ? undefined : proofKey(text);
  let keys: Promise<readonly [read: Buffer | undefined, act: Buffer | undefined]> | undefined;
  // Created at the first challenge: most processes never receive one.
  const keysOf = (): NonNullable<typeof keys> => {
    keys ??= Promise.all([keyOf(token), keyOf(actionToken)]);
    return keys;
  };
  const nonceOf = (untilMs: number, challenge: string): string =>
    `${untilMs}.${createHmac('sha256', secret).update(`${untilMs} ${challenge}`).digest('hex')}`;

  /** Whether the nonce comes from this server, and is neither expired nor used. */
  function takeNonce(nonce: string, challenge: string): boolean {
    const [untilMs, nowMs] = [Number.parseInt(nonce, 10), clock.monotonic()];
    if (!isSameProof(nonce, nonceOf(untilMs, challenge)) || untilMs < nowMs) return false;
    for (const [each, overMs] of used) if (overMs < nowMs) used.delete(each);
    if (used.has(nonce) || used.size >= maxNonces) return false;
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
      const nonce = nonceOf(Math.ceil(clock.monotonic()) + nonceMs, challenge);
      const parts = { challenge, nonce, process };
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
      const parts = { challenge, nonce, process };
      const isBy = (key: Buffer | undefined): boolean =>
        key !== undefined &&
        isSameProof(proof, clientProof(key, parts, request.method ?? '', request.url ?? ''));
      const acts = isBy(act ?? read);
      // The proof does not cover a body.
      if (hasBody(request) || !(acts || isBy(read)) || !takeNonce(nonce, challenge))
        return { read: 'wrong', act: 'wrong' };
      return { read: 'valid', act: acts ? 'valid' : 'wrong' };
    },
  };
}

const maxConnections = 64;
const maxOfOneAddress = 32;
/** Pipelined requests per connection. svc's own clients send none. */
const maxWaiting = 8;
/** Unsent bytes of answers, over all connections. */
const maxUnsentBytes = 32 * 1024 * 1024;

interface OpenConnection {
  readonly address: string | undefined;
  isBusy: boolean;
  readonly waiting: (() => void)[];
  /** A connection stays open after the answer only if its request was authorized. */
  isAnswered: boolean;
}

/** Limits connections. When full, the connection that has been idle longest is closed; unauthorized ones first. */
class Connections {
  /** In order of idle time, longest first. */
  readonly #open = new Map<Socket, OpenConnection>();

  /** Closes the new connection if all others have a request in progress. */
  enter(socket: Socket): void {
    const { remoteAddress: address } = socket;
    const isOfAddress = (connection: OpenConnection): boolean => connection.address === address;
    const ofAddress = [...this.#open.values()].filter(isOfAddress).length;
    const isAccepted =
      ofAddress >= maxOfOneAddress
        ? this.#closeIdle(isOfAddress)
        : this.#open.size < maxConnections || this.#closeIdle(() => true);
    if (!isAccepted) {
      socket.destroy();
      return;
    }
    this.#open.set(socket, { address, isBusy: false, waiting: [], isAnswered: false });
    socket.on('close', () => this.#open.delete(socket));
  }

  /** One request per connection at a time: `begin` is called at its turn, or never if too many wait. */
  request(socket: Socket, begin: () => void): void {
    const connection = this.#open.get(socket);
    if (connection === undefined || socket.destroyed) return;
    if (!connection.isBusy) {
      connection.isBusy = true;
      begin();
    } else if (connection.waiting.length < maxWaiting) connection.waiting.push(begin);
    else socket.destroy();
  }

  /** An answer was written. If too many bytes are unsent, closes the connections that have waited longest, this one last. */
  answerBegins(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    this.#open.delete(socket);
    this.#open.set(socket, connection);
    let unsent = 0;
    for (const each of this.#open.keys()) unsent += each.writableLength;
    for (const each of [...this.#open.keys()]) {
      if (unsent <= maxUnsentBytes || each === socket) return;
      if (each.writableLength === 0) continue;
      unsent -= each.writableLength;
      each.destroy();
    }
  }

  requestEnds(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    connection.isAnswered = true;
    this.#open.delete(socket);
    this.#open.set(socket, connection);
    const next = socket.writable ? connection.waiting.shift() : undefined;
    if (next === undefined) connection.isBusy = false;
    else next();
  }

  isAnswering(socket: Socket): boolean {
    return this.#open.get(socket)?.isBusy ?? false;
  }

  #closeIdle(isCandidate: (connection: OpenConnection) => boolean): boolean {
    const idle = [...this.#open].filter(([, connection]) => !connection.isBusy && isCandidate(connection));
    const [longest] = idle.find(([, { isAnswered }]) => !isAnswered) ?? idle[0] ?? [];
    if (longest === undefined) return false;
    this.#open.delete(longest);
    longest.destroy();
    return true;
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
}

/** No endpoint needs more. */
const maxBytes = 16 * 1024;
const jsonTypes = /^application\/(?:json|vnd\.[\w.-]+\.actuator\.v3\+json)$/;

/** Never rejects. The headers are checked before the body is read. */
async function readJsonBody(request: IncomingMessage, askForBody: () => void): Promise<JsonBody> {
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
  if (Number(length) > maxBytes) return tooLarge;
  askForBody();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > maxBytes) return tooLarge;
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

const tooLarge: JsonBody = { refusal: problem(413, `The body is larger than ${maxBytes} bytes.`) };

function isJson(contentType: string): boolean {
  const [type = '', ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase());
  return jsonTypes.test(type) && parameters.every((parameter) => /^(charset="?utf-8"?)?$/.test(parameter));
}

/** How long an answer may stall because its reader accepts no bytes. */
const unreadMs = 5_000;

/** Writes an answer, without its body for HEAD. */
function writeReply(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
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
function refuseUnparsed(error: NodeJS.ErrnoException, socket: Socket, answering: boolean): void {
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

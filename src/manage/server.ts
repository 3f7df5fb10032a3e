// manage/: health and metrics over HTTP. Sees svc through `controls.ts` only.

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
import { startOwnWork } from '../ground/lifecycle.ts';
import { minTokenLength } from '../ground/management.ts';
import { createQuietLog, type Logger, type QuietLog } from '../observe/logger.ts';
import { type ActionLimits, createActionLimits } from './actions.ts';
import type { Controls } from './controls.ts';
import {
  checkRequest,
  createProver,
  type GuardPolicy,
  mayNotAct,
  Places,
  type Prover,
  type Rights,
  readsNeedToken,
  rightsOf,
  unauthorized,
  whoAsks,
} from './guard.ts';
import {
  hasBody,
  problem,
  type Reply,
  readJsonBody,
  refuseUnparsed,
  versionedJsonType,
  writeReply,
} from './reply.ts';
import type { Route } from './route.ts';
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
      ? `behind the proxy of ${publicUrl} everybody looks local`
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
    sayRefused: createQuietLog(logger, systemClock, { level: 'warn' }),
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
    return problem(405, 'This endpoint does not take this method.', { allow: allowed(candidates) });
  const reply = await handled(request, route, rights, options, askForBody);
  if (route.action !== undefined && reply.status >= 400) {
    const { detail } = JSON.parse(String(reply.body)) as { readonly detail: string };
    const by = whoAsks(request, policy, rights);
    options.sayRefused(
      `${route.action} ${reply.status}`,
      `management: ${route.action}, asked for by ${by}, is refused: ${reply.status}, ${detail}`,
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
    return problem(500, 'The endpoint failed; the log of the application says why.');
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

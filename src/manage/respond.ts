import type { IncomingMessage } from 'node:http';
import type { Logger } from '../observe/logger.ts';
import type { QuietLog } from '../observe/quiet-log.ts';
import type { ActionLimits } from './actions/action.ts';
import type { Controls } from './controls.ts';
import {
  checkRequest,
  type GuardPolicy,
  mayNotAct,
  type Rights,
  readsNeedToken,
  rightsOf,
  unauthorized,
  whoAsks,
} from './guard.ts';
import { hasBody, readJsonBody } from './json-body.ts';
import type { Prover } from './prover.ts';
import { problem, type Reply, versionedJsonType } from './reply.ts';
import type { Route } from './route.ts';
import type { ShowDetails } from './routes.ts';

export interface RespondOptions {
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
export async function respond(
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

import { readFile } from 'node:fs/promises';
import {
  deadLetters,
  invalidateKeys,
  outboxStatistics,
  progressOf,
  type Route,
  type RouteContext,
  recoverFrom,
  replayOutbox,
  resetBreakers,
} from './actions.ts';
import type { Controls, Health } from './controls.ts';
import { json, problem, type Reply } from './reply.ts';

// the console page `/actuator/svc`. Its files are built from `console/`, and read on request.

/** Nothing from other origins, nothing inline, no frames. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Beside the files of the package; for unbuilt sources the last build. */
const folder = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/console/' : './console/',
  import.meta.url,
);

const consoleRoutes: readonly Route[] = [
  {
    ...{ name: 'console', path: '/actuator/svc', ids: ['svc-console'], method: 'GET', open: true },
    ...{ isPage: true, link: 'svc-console', handle: file('console.html', 'text/html') },
  },
  {
    ...{ name: 'consoleScript', path: '/actuator/svc/console.js', ids: ['svc-console'], method: 'GET' },
    ...{ open: true, handle: file('console.js', 'text/javascript') },
  },
  {
    ...{ name: 'consoleStyle', path: '/actuator/svc/console.css', ids: ['svc-console'], method: 'GET' },
    ...{ open: true, handle: file('console.css', 'text/css') },
  },
  {
    ...{ name: 'consoleDocument', path: '/actuator/svc/console.json', ids: ['svc-console'], method: 'GET' },
    handle: document,
  },
];

function file(name: string, contentType: string): Route['handle'] {
  return async () => ({
    status: 200,
    contentType: `${contentType}; charset=utf-8`,
    body: await readFile(new URL(name, folder), 'utf8'),
    headers: { 'content-security-policy': contentSecurityPolicy, 'referrer-policy': 'no-referrer' },
  });
}

async function document(context: RouteContext): Promise<Reply> {
  const { controls, query, routes } = context;
  const after = query.get('after') ?? '0';
  if (!/^\d{1,15}$/.test(after)) return problem(400, 'after must be a time in milliseconds.', {}, 'after');
  const actions = routes.map(({ action }) => action).filter((action) => action !== undefined);
  return json(context, 200, { ...(await controls.console(Number(after))), actions });
}

export type { ShowDetails } from '../ground/management.ts';

const prometheusTextType = 'text/plain; version=0.0.4; charset=utf-8';

type Extras = Partial<Pick<Route, 'open' | 'link' | 'action' | 'hasDryRun'>>;
type Row = readonly [Route['name'], Route['path'], Route['ids'], Route['handle'], Extras];

const svc: Route['ids'] = ['svc-metrics'];
const outbox: Route['ids'] = ['svc-outbox'];
const health: Route['ids'] = ['health'];

const reads: readonly Row[] = [
  ['metrics', '/metrics', ['prometheus', 'metrics'], metrics, {}],
  ['prometheus', '/actuator/prometheus', ['prometheus'], metrics, { link: 'prometheus' }],
  ['actuatorMetrics', '/actuator/metrics', ['metrics'], metrics, { link: 'metrics' }],
  ['openapi', '/actuator/openapi.json', [], openapi, { link: 'openapi' }],
  ['index', '/actuator', [], index, { link: 'self' }],
  ['health', '/actuator/health', health, overallHealth, { open: true, link: 'health' }],
  ['ownHealth', '/actuator/health/svc', health, ownHealth, { open: true, link: 'health-svc' }],
  ['liveness', '/actuator/health/liveness', health, liveness, { open: true, link: 'health-liveness' }],
  ['readiness', '/actuator/health/readiness', health, readiness, { open: true, link: 'health-readiness' }],
  ['info', '/actuator/info', ['info'], info, { link: 'info' }],
  ['metricsReport', '/actuator/svc-metrics', svc, metricsReport, { link: 'svc-metrics' }],
  ['targets', '/actuator/svc/targets', svc, targets, { link: 'svc-targets' }],
  ['deadLetters', '/actuator/svc/dlq', svc, deadLetters, { link: 'svc-dlq' }],
  ['outboxStatistics', '/actuator/svc-outbox', outbox, outboxStatistics, { link: 'svc-outbox' }],
  [
    'recoveryOfDeadLetters',
    '/actuator/svc/dlq/recover',
    svc,
    progressOf('deadLetterRecovery'),
    { link: 'svc-dlq-recover' },
  ],
  [
    'drainOfBackup',
    '/actuator/svc/backup/drain',
    svc,
    progressOf('backupDrain'),
    { link: 'svc-backup-drain' },
  ],
];

const acts: readonly Row[] = [
  [
    'resetBreakers',
    '/actuator/svc/circuit-breaker/reset',
    svc,
    resetBreakers,
    { link: 'svc-circuit-breaker-reset', action: 'circuit-breaker-reset' },
  ],
  [
    'invalidateKeys',
    '/actuator/svc/keys/invalidate',
    svc,
    invalidateKeys,
    { link: 'svc-keys-invalidate', action: 'keys-invalidate' },
  ],
  [
    'replayOutbox',
    '/actuator/svc-outbox',
    outbox,
    replayOutbox,
    { action: 'outbox-replay', hasDryRun: true },
  ],
  [
    'recoverDeadLetters',
    '/actuator/svc/dlq/recover',
    svc,
    recoverFrom('deadLetterRecovery'),
    { action: 'dlq-recover', hasDryRun: true },
  ],
  [
    'drainBackup',
    '/actuator/svc/backup/drain',
    svc,
    recoverFrom('backupDrain'),
    { action: 'backup-drain', hasDryRun: true },
  ],
];

const allRoutes: readonly Route[] = [
  ...reads.map((row) => routeOf('GET', row)),
  ...acts.map((row) => routeOf('POST', row)),
  ...consoleRoutes,
];

function routeOf(method: Route['method'], [name, path, ids, handle, extras]: Row): Route {
  return { name, path, ids, method, handle, ...extras };
}

/** The routes that a configuration exposes. */
export function exposedRoutes(include: readonly string[]): readonly Route[] {
  return allRoutes.filter(
    ({ ids }) => ids.length === 0 || include.includes('*') || ids.some((id) => include.includes(id)),
  );
}

const rendering = new WeakMap<Controls, Promise<Buffer>>();

/** Rendered once for concurrent requests, which share the bytes. */
async function metrics({ controls }: RouteContext): Promise<Reply> {
  let text = rendering.get(controls);
  if (text === undefined) {
    text = controls.metricsText().then((it) => Buffer.from(it));
    rendering.set(controls, text);
    const isOver = (): void => void rendering.delete(controls);
    text.then(isOver, isOver);
  }
  return { status: 200, contentType: prometheusTextType, body: await text };
}

/** In the requested shape. */
async function metricsReport(context: RouteContext): Promise<Reply> {
  const { controls, query } = context;
  const shapes = query.getAll('shape');
  if (shapes.length === 0) return json(context, 200, await controls.metricsReport());
  if (shapes.length > 1 || shapes[0] !== 'flat')
    return problem(400, 'shape must be flat, once, or left out for the whole report.', {}, 'shape');
  return json(context, 200, await controls.flatMetricsReport());
}

function targets(context: RouteContext): Reply {
  return json(context, 200, { targets: context.controls.targets() });
}

function index(context: RouteContext): Reply {
  const links = context.routes
    .filter((route) => route.link !== undefined)
    .map((route) => [route.link, { href: route.path, templated: false }]);
  return json(context, 200, { _links: Object.fromEntries(links) });
}

const documents = new WeakMap<readonly Route[], Buffer>();

/** Rarely requested: its description is loaded on demand and rendered once. */
async function openapi({ routes, jsonType }: RouteContext): Promise<Reply> {
  let document = documents.get(routes);
  if (document === undefined) {
    const { openapiDocument } = await import('./openapi.ts');
    document = Buffer.from(JSON.stringify(openapiDocument(routes)));
    documents.set(routes, document);
  }
  return { status: 200, contentType: jsonType, body: document };
}

async function overallHealth(context: RouteContext): Promise<Reply> {
  const health = await context.controls.health();
  const components = context.showDetails ? { components: { svc: health } } : {};
  return json(context, healthStatus(health), { status: health.status, ...components });
}

async function ownHealth(context: RouteContext): Promise<Reply> {
  const health = await context.controls.health();
  return json(context, healthStatus(health), context.showDetails ? health : { status: health.status });
}

/**
 * A process that answers is alive. A problem that a restart does not fix, such as an unavailable broker, must not cause one.
 */
function liveness(context: RouteContext): Reply {
  return json(context, 200, { status: 'UP' });
}

/** An application can serve without Kafka, so the broker counts only if configured. */
async function readiness(context: RouteContext): Promise<Reply> {
  if (!(await context.controls.isReady())) return json(context, 503, { status: 'DOWN' });
  if (!context.readinessNeedsBroker) return json(context, 200, { status: 'UP' });
  const health = await context.controls.health();
  return json(context, healthStatus(health), { status: health.status });
}

function info(context: RouteContext): Reply {
  return json(context, 200, context.controls.info());
}

function healthStatus(health: Health): number {
  return health.status === 'UP' ? 200 : 503;
}

import { outboxStatistics, replayOutbox } from './actions/outbox-endpoint.ts';
import { progressOf, recoverFrom } from './actions/recovery-endpoint.ts';
import { invalidateKeys, resetBreakers } from './actions/simple-actions.ts';
import { consoleRoutes } from './console/console-routes.ts';
import type { Health } from './controls.ts';
import { deadLetters } from './dead-letters-endpoint.ts';
import { metricsEndpoint } from './metrics-endpoint.ts';
import { json, type Reply } from './reply.ts';
import type { Route, RouteContext } from './route.ts';

export type { ShowDetails } from '../ground/management.ts';

const prometheusTextType = 'text/plain; version=0.0.4; charset=utf-8';

const allRoutes: readonly Route[] = [
  { name: 'metrics', path: '/metrics', ids: ['prometheus', 'metrics'], method: 'GET', handle: metrics },
  {
    name: 'prometheus',
    path: '/actuator/prometheus',
    ids: ['prometheus'],
    method: 'GET',
    link: 'prometheus',
    handle: metrics,
  },
  {
    name: 'actuatorMetrics',
    path: '/actuator/metrics',
    ids: ['metrics'],
    method: 'GET',
    link: 'metrics',
    handle: metrics,
  },
  {
    name: 'openapi',
    path: '/actuator/openapi.json',
    ids: [],
    method: 'GET',
    link: 'openapi',
    handle: openapi,
  },
  { name: 'index', path: '/actuator', ids: [], method: 'GET', link: 'self', handle: index },
  {
    name: 'health',
    path: '/actuator/health',
    ids: ['health'],
    method: 'GET',
    open: true,
    link: 'health',
    handle: overallHealth,
  },
  {
    name: 'ownHealth',
    path: '/actuator/health/svc',
    ids: ['health'],
    method: 'GET',
    open: true,
    link: 'health-svc',
    handle: ownHealth,
  },
  {
    name: 'liveness',
    path: '/actuator/health/liveness',
    ids: ['health'],
    method: 'GET',
    open: true,
    link: 'health-liveness',
    handle: liveness,
  },
  {
    name: 'readiness',
    path: '/actuator/health/readiness',
    ids: ['health'],
    method: 'GET',
    open: true,
    link: 'health-readiness',
    handle: readiness,
  },
  { name: 'info', path: '/actuator/info', ids: ['info'], method: 'GET', link: 'info', handle: info },
  {
    name: 'metricsReport',
    path: '/actuator/svc-metrics',
    ids: ['svc-metrics'],
    method: 'GET',
    link: 'svc-metrics',
    handle: metricsEndpoint,
  },
  {
    name: 'targets',
    path: '/actuator/svc/targets',
    ids: ['svc-metrics'],
    method: 'GET',
    link: 'svc-targets',
    handle: (context) => json(context, 200, { targets: context.controls.targets() }),
  },
  {
    name: 'deadLetters',
    path: '/actuator/svc/dlq',
    ids: ['svc-metrics'],
    method: 'GET',
    link: 'svc-dlq',
    handle: deadLetters,
  },
  {
    name: 'resetBreakers',
    path: '/actuator/svc/circuit-breaker/reset',
    ids: ['svc-metrics'],
    method: 'POST',
    link: 'svc-circuit-breaker-reset',
    action: 'circuit-breaker-reset',
    handle: resetBreakers,
  },
  {
    name: 'invalidateKeys',
    path: '/actuator/svc/keys/invalidate',
    ids: ['svc-metrics'],
    method: 'POST',
    link: 'svc-keys-invalidate',
    action: 'keys-invalidate',
    handle: invalidateKeys,
  },
  {
    name: 'outboxStatistics',
    path: '/actuator/svc-outbox',
    ids: ['svc-outbox'],
    method: 'GET',
    link: 'svc-outbox',
    handle: outboxStatistics,
  },
  {
    name: 'replayOutbox',
    path: '/actuator/svc-outbox',
    ids: ['svc-outbox'],
    method: 'POST',
    action: 'outbox-replay',
    hasDryRun: true,
    handle: replayOutbox,
  },
  {
    name: 'recoveryOfDeadLetters',
    path: '/actuator/svc/dlq/recover',
    ids: ['svc-metrics'],
    method: 'GET',
    link: 'svc-dlq-recover',
    handle: progressOf('deadLetterRecovery'),
  },
  {
    name: 'recoverDeadLetters',
    path: '/actuator/svc/dlq/recover',
    ids: ['svc-metrics'],
    method: 'POST',
    action: 'dlq-recover',
    hasDryRun: true,
    handle: recoverFrom('deadLetterRecovery'),
  },
  {
    name: 'drainOfBackup',
    path: '/actuator/svc/backup/drain',
    ids: ['svc-metrics'],
    method: 'GET',
    link: 'svc-backup-drain',
    handle: progressOf('backupDrain'),
  },
  {
    name: 'drainBackup',
    path: '/actuator/svc/backup/drain',
    ids: ['svc-metrics'],
    method: 'POST',
    action: 'backup-drain',
    hasDryRun: true,
    handle: recoverFrom('backupDrain'),
  },
  ...consoleRoutes,
];

/** The routes that a configuration exposes. */
export function exposedRoutes(include: readonly string[]): readonly Route[] {
  return allRoutes.filter(
    ({ ids }) => ids.length === 0 || include.includes('*') || ids.some((id) => include.includes(id)),
  );
}

async function metrics({ controls }: RouteContext): Promise<Reply> {
  return { status: 200, contentType: prometheusTextType, body: await controls.metricsText() };
}

function index(context: RouteContext): Reply {
  const links = context.routes
    .filter((route) => route.link !== undefined)
    .map((route) => [route.link, { href: route.path, templated: false }]);
  return json(context, 200, { _links: Object.fromEntries(links) });
}

/** Few ever ask: what describes the endpoints is loaded then. */
async function openapi(context: RouteContext): Promise<Reply> {
  const { openapiDocument } = await import('./openapi/document.ts');
  return json(context, 200, openapiDocument(context.routes));
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

/** Whoever answers is alive: what a restart does not mend, such as a broker that is away, must not cause one. */
function liveness(context: RouteContext): Reply {
  return json(context, 200, { status: 'UP' });
}

/** An application serves its callers without Kafka, too: only where it was asked for does the broker count. */
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

import { readFile } from 'node:fs/promises';
import { clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { isoSeconds, parseInstant, parsePast } from '../ground/event-fields.ts';
import type { EndpointId } from '../ground/management.ts';
import {
  type Controls,
  type DeadLetterAsk,
  type Health,
  maxDeadLetters,
  type OutboxControls,
  type OutboxReplayRequest,
  type RecoveryAsk,
  type RecoveryControls,
} from './controls.ts';
import type { DocumentedRoute } from './openapi.ts';
import { type JsonBody, problem, type Reply } from './reply.ts';

// the actions of requests: their checks, and their limits against repeated or concurrent runs.

interface ActionContext {
  readonly controls: Controls;
  readonly jsonType: string;
  readonly hasBody: boolean;
  readonly by: string;
  /** The refusal for a caller who may only do dry runs; `undefined`: the caller may act. */
  readonly mayNotAct: Reply | undefined;
  readonly limits: ActionLimits;
  readonly readBody: () => Promise<JsonBody>;
}

/** The fields of a request. A caller who may not act learns only the result of a dry run. */
async function readFields(
  { hasBody, readBody, mayNotAct }: ActionContext,
  checks: Checks,
): Promise<JsonBody> {
  const body: JsonBody = hasBody ? await readBody() : { fields: {} };
  const isDryRun = 'fields' in body && body.fields.dryRun === true;
  if (mayNotAct !== undefined && !isDryRun) return { refusal: mayNotAct };
  const refusal = 'fields' in body ? checkFields(body.fields, checks) : undefined;
  return refusal === undefined ? body : { refusal };
}

const maxInAMinute = 6;
const minuteMs = 60_000;

/** Rate limits of actions. */
class ActionLimits {
  readonly #begun = new Map<string, number[]>();

  /** Counts a run, or returns the seconds to wait. */
  take(what: string): number | undefined {
    const nowMs = clock.monotonic();
    const lately = (this.#begun.get(what) ?? []).filter((atMs) => nowMs - atMs < minuteMs);
    this.#begun.set(what, lately);
    const [first] = lately;
    if (first !== undefined && lately.length >= maxInAMinute)
      return Math.ceil((first + minuteMs - nowMs) / 1_000);
    lately.push(nowMs);
    return undefined;
  }

  /** The run was not started. */
  giveBack(what: string): void {
    this.#begun.get(what)?.pop();
  }
}

function tooOften(seconds: number): Reply {
  const detail = `This action was started ${maxInAMinute} times within a minute. Try again in ${seconds} s.`;
  return problem(429, detail, { 'retry-after': String(seconds) });
}

const retryAfterSeconds = 5;

function isBusy(detail: string): Reply {
  return problem(409, detail, { 'retry-after': String(retryAfterSeconds) });
}

type Fields = Readonly<Record<string, unknown>>;
/** The problem of a field's value, to follow its name; `undefined`: none. */
type Check = (value: unknown) => string | undefined;
type Checks = Readonly<Record<string, Check>>;

const example =
  'a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.';

/** Milliseconds since the epoch, for a value that `past` accepts. */
function timeOf(value: unknown): number | undefined {
  return typeof value === 'string' ? parsePast(value, clock.now()) : undefined;
}

const past: Check = (value) => {
  const time = timeOf(value);
  if (time === undefined) return `must be ${example}`;
  return time > clock.now() ? 'lies in the future.' : undefined;
};

const pastOrFuture: Check = (value) => (timeOf(value) === undefined ? `must be ${example}` : undefined);

const requiredPast: Check = (value) =>
  value === undefined || value === null ? `is required: ${example}` : past(value);

const wholeFrom =
  (least: number, more = ''): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= least
      ? undefined
      : `must be a whole number from ${least} on${more}.`;

const flag: Check = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false.');

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

const text: Check = (value) =>
  isText(value) ? undefined : 'must be a string; only events with this value are sent.';

const maxTexts = 100;

const texts: Check = (value) => {
  const all = Array.isArray(value) ? value : [value];
  return all.length > 0 && all.length <= maxTexts && all.every(isText)
    ? undefined
    : `must be a string or a list of up to ${maxTexts}; only events with one of these values are sent.`;
};

const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    values.includes(value as string) ? undefined : `must be ${values.join(' or ')}.`;

/** The first problem of a body or query. Misspelled fields are refused: the limit that they meant would silently not apply. */
function checkFields(fields: Fields, checks: Checks, what = 'The body'): Reply | undefined {
  for (const [field, check] of Object.entries(checks)) {
    const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
    const wrong = value === undefined && check !== requiredPast ? undefined : check(value);
    if (wrong !== undefined) return problem(400, `${field} ${wrong}`, {}, field);
  }
  const names = Object.keys(checks);
  if (Object.keys(fields).every((field) => names.includes(field))) return checkOrder(fields);
  return problem(400, `${what} takes the fields ${names.slice(0, -1).join(', ')} and ${names.at(-1)} only.`);
}

function checkOrder(fields: Fields): Reply | undefined {
  const [since, until] = [timeOf(fields.since), timeOf(fields.until)];
  if (since === undefined || until === undefined || since < until) return undefined;
  return problem(400, 'since is not before until.', {}, 'since');
}

function json({ jsonType }: { readonly jsonType: string }, status: number, value: unknown): Reply {
  return { status, contentType: jsonType, body: JSON.stringify(value) };
}

type Context = Pick<ActionContext, 'controls' | 'jsonType'>;

/** `GET /actuator/svc-outbox`. */
function outboxStatistics(context: Context): Promise<Reply> {
  return withOutbox(context, async (outbox) => {
    const { total, pending, published, failed, avgProcessingTimeMs } = await outbox.statistics();
    return json(context, 200, { total, pending, published, failed, avgProcessingTimeMs });
  });
}

/** `POST /actuator/svc-outbox`: answers when the replay has ended. */
function replayOutbox(context: ActionContext): Promise<Reply> {
  return withOutbox(context, async (outbox) => {
    const body = await readFields(context, checks);
    if ('refusal' in body) return body.refusal;
    const request = body.fields as unknown as OutboxReplayRequest;
    const what = `replay ${request.dryRun === true}`;
    const tooOftenFor = context.limits.take(what);
    if (tooOftenFor !== undefined) return tooOften(tooOftenFor);
    try {
      const result = await outbox.replay({ ...request, since: instantOf(request.since) }, context.by);
      const { since, limit, total, success, failed, failedEventIds, after } = result;
      const goOn = { ...(request.dryRun && { dryRun: true }), ...(after !== undefined && { after }) };
      return json(context, 200, { since, limit, total, success, failed, failedEventIds, ...goOn });
    } catch (error) {
      if (error instanceof SvcError && error.code === 'SVC_OUTBOX_REPLAY_BUSY') context.limits.giveBack(what);
      throw error;
    }
  });
}

const checks = {
  since: requiredPast,
  type: text,
  topic: text,
  limit: wholeFrom(1),
  after: wholeFrom(0, ', from the answer to an earlier replay'),
  dryRun: flag,
};

async function withOutbox(
  { controls }: Context,
  use: (outbox: OutboxControls) => Promise<Reply>,
): Promise<Reply> {
  if (controls.outbox === undefined)
    return problem(
      404,
      'This application has no outbox: set svc.outbox.enabled: true, and svc.outbox.datasource.url.',
    );
  try {
    return await use(controls.outbox);
  } catch (error) {
    if (!(error instanceof SvcError) || !error.code.startsWith('SVC_OUTBOX_')) throw error;
    if (error.code === 'SVC_OUTBOX_REPLAY_BUSY') return isBusy(error.message);
    // All other problems are those of the database.
    return problem(error.code === 'SVC_OUTBOX_REPLAY_OPTIONS' ? 400 : 503, error.message);
  }
}

/** The text as given, or the instant of an age, which a later continuation must repeat. */
function instantOf(since: string): string {
  if (parseInstant(since) !== undefined) return since;
  return isoSeconds(timeOf(since) ?? 0);
}

const checksOfRecoveryEndpoint = {
  type: texts,
  topic: texts,
  since: past,
  until: pastOrFuture,
  to: text,
  rate: wholeFrom(1),
  limit: wholeFrom(1),
  dryRun: flag,
};

type Kind = 'deadLetterRecovery' | 'backupDrain';

/** `POST …`: answers when the run has started. It continues if the client disconnects. */
const recoverFrom =
  (kind: Kind) =>
  async (context: ActionContext): Promise<Reply> => {
    const from = kind === 'backupDrain' ? { from: oneOf('local', 's3') } : {};
    const body = await readFields(context, { ...from, ...checksOfRecoveryEndpoint });
    if ('refusal' in body) return body.refusal;
    const ask = askOf(body.fields);
    const recovery: RecoveryControls = context.controls[kind];
    const missing = recovery.missing(ask);
    if (missing !== undefined) return problem(404, missing);
    const what = `${kind} ${ask.dryRun}`;
    const tooOftenFor = context.limits.take(what);
    if (tooOftenFor !== undefined) return tooOften(tooOftenFor);
    const run = recovery.start(ask, context.by);
    if (run !== undefined) return json(context, 202, run);
    context.limits.giveBack(what);
    return isBusy('One is already running: GET of the same path shows its progress.');
  };

/** `GET …`: the progress of the latest run. */
const progressOf =
  (kind: Kind) =>
  (context: Pick<ActionContext, 'controls' | 'jsonType'>): Reply =>
    json(context, 200, context.controls[kind].latest());

function askOf(fields: Readonly<Record<string, unknown>>): RecoveryAsk {
  const { from, type, topic, since, until, to, rate, limit, dryRun = false } = fields;
  return {
    ...{ types: listOf(type), topics: listOf(topic), since: timeOf(since), until: timeOf(until) },
    ...({ from, to, rate, limit, dryRun } as Pick<RecoveryAsk, 'from' | 'to' | 'rate' | 'limit' | 'dryRun'>),
  };
}

function listOf(value: unknown): readonly string[] | undefined {
  return value === undefined ? undefined : ([value].flat() as unknown[] as string[]);
}

/** `POST /actuator/svc/circuit-breaker/reset`: closes both breakers. */
async function resetBreakers(context: ActionContext): Promise<Reply> {
  return (await refusedBody(context)) ?? json(context, 200, context.controls.resetBreakers(context.by));
}

/** `POST /actuator/svc/keys/invalidate`: for a key that must not be used again. */
async function invalidateKeys(context: ActionContext): Promise<Reply> {
  return (
    (await refusedBody(context)) ?? json(context, 200, await context.controls.invalidateKeys(context.by))
  );
}

/** These actions take no body. */
async function refusedBody({ hasBody, readBody }: ActionContext): Promise<Reply | undefined> {
  if (!hasBody) return undefined;
  const body = await readBody();
  if ('refusal' in body) return body.refusal;
  return Object.keys(body.fields).length > 0 ? problem(400, 'This action takes no fields.') : undefined;
}

type DeadLettersEndpointContext = Pick<ActionContext, 'controls' | 'jsonType'> & {
  readonly query: URLSearchParams;
};

const checksOfDeadLettersEndpoint = {
  source: oneOf('topic'),
  type: texts,
  reason: texts,
  topic: texts,
  since: past,
  until: pastOrFuture,
  limit: limitUpTo(maxDeadLetters),
};
const lists: readonly string[] = ['type', 'reason', 'topic'];

/** `GET /actuator/svc/dlq`: the dead letters of this process, or with `source=topic` those in the topic. */
async function deadLetters(context: DeadLettersEndpointContext): Promise<Reply> {
  const { controls, query } = context;
  const fields = fieldsOf(query);
  const refusal = checkFields(fields, checksOfDeadLettersEndpoint, 'The query');
  if (refusal !== undefined) return refusal;
  if (fields.source === undefined)
    return query.size === 0
      ? json(context, 200, controls.deadLetters())
      : problem(400, 'source must be topic if other parameters are given.', {}, 'source');
  const { since, until, ...rest } = fields;
  const ask = { ...askOfOfDeadLettersEndpoint(rest), since: timeOf(since), until: timeOf(until) };
  const missing = controls.deadLetterTopic.missing();
  if (missing !== undefined) return problem(404, missing);
  try {
    const found = await controls.deadLetterTopic.newest(ask);
    return found === undefined ? isBusy('Another request is reading it.') : json(context, 200, found);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return problem(503, `The dead letter topic cannot be read: ${error.message}`);
  }
}

type DeadLettersEndpointFields = Readonly<Record<string, string | readonly string[]>>;

/** A repeated parameter becomes a list, which the checks of single values refuse. */
function fieldsOf(query: URLSearchParams): DeadLettersEndpointFields {
  const names = [...new Set(query.keys())];
  return Object.fromEntries(
    names.map((name) => {
      const all = query.getAll(name);
      return [name, lists.includes(name) || all.length > 1 ? all : (all[0] as string)];
    }),
  );
}

function askOfOfDeadLettersEndpoint({
  type,
  reason,
  topic,
  limit,
}: DeadLettersEndpointFields): DeadLetterAsk {
  return {
    ...({ types: type, reasons: reason, topics: topic } as Pick<
      DeadLetterAsk,
      'types' | 'reasons' | 'topics'
    >),
    limit: limit === undefined ? maxDeadLetters : Number(limit),
  };
}

function limitUpTo(max: number): (value: unknown) => string | undefined {
  return (value) =>
    typeof value === 'string' && /^[1-9]\d{0,3}$/.test(value) && Number(value) <= max
      ? undefined
      : `must be a whole number from 1 to ${max}.`;
}

/** What the server knows of a request. */
interface RequestContext extends Omit<ActionContext, 'limits'> {
  readonly showDetails: boolean;
  readonly readinessNeedsBroker: boolean;
  /** Of the request target: `?` and what follows. */
  readonly query: URLSearchParams;
}

interface RouteContext extends RequestContext {
  readonly limits: ActionLimits;
  readonly routes: readonly ExposedRoute[];
}

interface RouteFor<Context> extends DocumentedRoute {
  /** Exposed if one of these ids is; without ids always. */
  readonly ids: readonly EndpointId[];
  /** A page for browsers: links on other sites may lead here. Holds no data. */
  readonly isPage?: true;
  /** Name in the index of links. */
  readonly link?: string;
  handle(context: Context): Reply | Promise<Reply>;
}

type Route = RouteFor<RouteContext>;
export type ExposedRoute = RouteFor<RequestContext>;

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

/** The routes of one server. They share the limits of its actions. */
export function exposedRoutes(include: readonly string[]): readonly ExposedRoute[] {
  const limits = new ActionLimits();
  const routes: readonly ExposedRoute[] = allRoutes
    .filter(({ ids }) => ids.length === 0 || include.includes('*') || ids.some((id) => include.includes(id)))
    .map((route) => ({ ...route, handle: (context) => route.handle({ ...context, routes, limits }) }));
  return routes;
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

const documents = new WeakMap<readonly ExposedRoute[], Buffer>();

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

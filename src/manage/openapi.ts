import { type actionIds, circuitStates } from '../ground/management.ts';
import { version } from '../ground/version.ts';
import { maxDeadLetters, runStates } from './controls.ts';
import { versionedJsonType } from './reply.ts';

/** JSON Schema, draft 2020-12. */
type Schema = { readonly [keyword: string]: unknown };

const integer: Schema = { type: 'integer' };
const number: Schema = { type: 'number' };
const string: Schema = { type: 'string' };
const boolean: Schema = { type: 'boolean' };
const time: Schema = { type: 'string', format: 'date-time' };

const constant = (...values: readonly string[]): Schema => ({ type: 'string', enum: values });
const list = (items: Schema): Schema => ({ type: 'array', items });
const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const orNull = (schema: Schema): Schema =>
  typeof schema.type === 'string' && schema.enum === undefined
    ? { ...schema, type: [schema.type, 'null'] }
    : { anyOf: [schema, { type: 'null' }] };
const about = (description: string, schema: Schema): Schema => ({ ...schema, description });

/** A name with `?` is optional; additional properties are not allowed. */
function object(members: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(members);
  return {
    type: 'object',
    properties: Object.fromEntries(Object.entries(members).map(([name, member]) => [bare(name), member])),
    required: names.filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  };
}

const bare = (name: string): string => (name.endsWith('?') ? name.slice(0, -1) : name);

const upOrDown = constant('UP', 'DOWN');
const circuit = constant(...circuitStates);
const past = about(
  'A time in ISO 8601 with its zone, a day, or how long ago, such as 90m or 2d; not in the future.',
  string,
);
const texts: Schema = {
  anyOf: [
    { type: 'string', minLength: 1 },
    { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: 100 },
  ],
};
const from1: Schema = { type: 'integer', minimum: 1 };
const from0: Schema = { type: 'integer', minimum: 0 };
const flag: Schema = { type: 'boolean', default: false };

const outboxSummary = {
  circuitBreakerState: orNull(circuit),
  consecutiveFailures: orNull(integer),
  timeSinceLastSuccessMs: orNull(number),
  totalPending: orNull(integer),
  totalFailed: orNull(integer),
};
const optional = (members: Readonly<Record<string, Schema>>): Record<string, Schema> =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [`${name}?`, member]));
const descriptors = (...statistics: readonly string[]): Schema =>
  list(
    object({
      ...{ name: string, description: string, baseUnit: string, eventType: string },
      measurements: list(object({ statistic: constant(...statistics), value: number })),
    }),
  );
const recovery = {
  'type?': texts,
  'topic?': about(
    'Only events for these topics, also for topics that the configuration does not name.',
    texts,
  ),
  'since?': past,
  'until?': about('Like since, but may be in the future.', string),
  'to?': about('Topic of events whose own topic is unknown.', { type: 'string', minLength: 1 }),
  'rate?': about('Events a second.', from1),
  'limit?': about('Events at most.', from1),
  'dryRun?': about('Counts, and sends nothing. The read token suffices.', flag),
};
const reset = orNull(object({ before: circuit, after: circuit }));

const schemas = {
  Problem: about(
    'RFC 9457. It repeats no part of the request.',
    object({ type: string, title: string, status: integer, detail: string, 'field?': string }),
  ),
  Links: object({
    _links: { type: 'object', additionalProperties: object({ href: string, templated: boolean }) },
  }),
  Status: object({ status: upOrDown }),
  Health: object({ status: upOrDown, 'details?': ref('HealthDetails') }),
  OverallHealth: object({ status: upOrDown, 'components?': object({ svc: ref('Health') }) }),
  HealthDetails: object({
    'state?': constant('HEALTHY', 'WARNING', 'CRITICAL'),
    'findings?': list(string),
    ...{ brokerProducerInitialized: boolean, clusterId: orNull(string), nodeCount: orNull(integer) },
    ...{ topic: orNull(string), dlqTopic: orNull(string) },
    'worker?': object({ id: integer, source: string }),
    'tooLargeEvents?': integer,
    'keys?': list(ref('Key')),
    'outbox?': ref('OutboxHealth'),
    ...{ 'ageMs?': number, 'warning?': string, 'error?': string },
  }),
  Key: object({ provider: string, keyId: string, status: upOrDown, 'error?': string }),
  OutboxHealth: object({
    ...{ status: upOrDown, ...outboxSummary, oldestPendingMs: orNull(number) },
    ...{ 'standsBy?': boolean, 'error?': string, 'warning?': string },
  }),
  Info: object({
    service: object({ name: orNull(string), version: orNull(string) }),
    svc: object({ version: string }),
  }),
  MetricsReport: object({
    summary: object({
      ...{ totalEventsPublished: integer, successfulEvents: integer, failedEvents: integer },
      successRate: { type: 'string', pattern: '^\\d+\\.\\d\\d%$' },
      ...{ totalDlqEvents: integer, totalBrokerErrors: integer, totalBackupFiles: integer },
      ...optional(outboxSummary),
    }),
    events: object({ published: descriptors('COUNT'), publishDuration: descriptors('COUNT', 'MEAN', 'MAX') }),
    dlq: object({
      ...{ totalDlqEvents: integer, totalBackupFiles: integer },
      recentDlqEvents: list(ref('DeadLetter')),
    }),
    broker: object({
      connectionCount: orNull(integer),
      inFlightRequests: orNull(integer),
      requestLatencyAvg: orNull(number),
    }),
  }),
  FlatMetricsReport: object({
    ...{ eventsPublished: integer, eventsFailed: integer, dlqEvents: integer },
    ...{ outboxPending: orNull(integer), lastPublishTime: orNull(time) },
  }),
  Report: { anyOf: [ref('MetricsReport'), ref('FlatMetricsReport')] },
  Text: string,
  // Internal to the page and the server of one version: `manage/views.ts`.
  Console: { type: 'object' },
  Document: { type: 'object' },
  DeadLetter: object({ eventType: string, failureReason: string, timestamp: time }),
  DeadLetters: object({ waiting: orNull(integer), recent: list(ref('DeadLetter')) }),
  StoredDeadLetter: object({
    ...{ eventId: string, eventType: orNull(string), failureReason: orNull(string) },
    ...{ originalTopic: orNull(string), timestamp: time, partition: integer, offset: integer },
  }),
  DeadLettersOfTopic: object({
    ...{ topic: string, deadLetters: list(ref('StoredDeadLetter')) },
    ...{ read: integer, unreadable: integer, complete: boolean },
  }),
  DeadLetterReport: { anyOf: [ref('DeadLetters'), ref('DeadLettersOfTopic')] },
  Targets: object({
    targets: list(
      object({
        ...{ target: string, state: string, 'reason?': string, 'notes?': list(string) },
        ...{ calls: integer, failed: integer, skipped: integer },
      }),
    ),
  }),
  BreakerResets: object({ broker: reset, outbox: reset }),
  Keys: object({ keys: list(ref('Key')) }),
  Nothing: object({}),
  OutboxStatistics: object({
    ...{ total: integer, pending: integer, published: integer, failed: integer },
    avgProcessingTimeMs: number,
  }),
  ReplayRequest: object({
    since: past,
    'type?': about('Only events of this type.', { type: 'string', minLength: 1 }),
    'topic?': about('Only events for this topic.', { type: 'string', minLength: 1 }),
    'limit?': { ...from1, default: 1000 },
    'after?': about('The value of after from an earlier replay, to continue there.', from0),
    'dryRun?': about('Only counts. The read token suffices.', flag),
  }),
  Replay: object({
    ...{ since: string, limit: integer, total: integer, success: integer, failed: integer },
    failedEventIds: list(string),
    ...{ 'dryRun?': boolean, 'after?': integer },
  }),
  RecoveryRequest: object(recovery),
  DrainRequest: object({ 'from?': constant('local', 's3'), ...recovery }),
  Run: object({
    ...{ id: string, state: constant(...runStates), dryRun: boolean, startedAt: time, endedAt: orNull(time) },
    total: orNull(integer),
    ...{ matched: integer, skipped: integer, sent: integer, failed: integer, unreadable: integer },
    problems: list(object({ reason: string, events: integer })),
    error: orNull(string),
  }),
  Runs: object({ run: orNull(ref('Run')), dryRun: orNull(ref('Run')) }),
} as const satisfies Readonly<Record<string, Schema>>;

type SchemaName = keyof typeof schemas;

// the OpenAPI document of the endpoints. Loaded on demand.

/** The documentation of a route; the rest comes from the server. */
interface Operation {
  readonly summary: string;
  readonly answers: Readonly<Partial<Record<number, readonly [SchemaName, string]>>>;
  /** The media type of an answer other than JSON. */
  readonly text?: string;
  readonly body?: SchemaName;
  readonly isBodyNeeded?: true;
  readonly query?: Readonly<Record<string, Schema>>;
  /** Problem statuses besides those of every route. */
  readonly problems?: readonly number[];
}

const metrics: Operation = {
  summary: 'All metrics, in the text format of Prometheus.',
  answers: { 200: ['Text', 'The metrics.'] },
  text: 'text/plain',
};
const health = (summary: string, schema: SchemaName): Operation => ({
  summary,
  answers: { 200: [schema, 'It is UP.'], 503: [schema, 'It is DOWN.'] },
});
const asset = (summary: string, text: string): Operation => ({
  ...{ summary, text, answers: { 200: ['Text', 'The file.'] } },
});
const ok = (summary: string, schema: SchemaName): Operation => ({
  summary,
  answers: { 200: [schema, 'As it is now.'] },
});
const begins = (summary: string, body: SchemaName): Operation => ({
  ...{ summary, body, answers: { 202: ['Run', 'It has begun.'] }, problems: [404, 409, 429] },
});

const operations = {
  metrics,
  prometheus: metrics,
  actuatorMetrics: metrics,
  index: ok('Links to what is exposed.', 'Links'),
  openapi: ok('This document.', 'Document'),
  health: health('Health; details need the read token.', 'OverallHealth'),
  ownHealth: health('Health of svc; details need the read token.', 'Health'),
  liveness: ok('UP while the process answers.', 'Status'),
  readiness: health('DOWN while this instance does not do its work.', 'Status'),
  info: ok('Name and version of the service, and of svc.', 'Info'),
  metricsReport: {
    summary: 'All metrics as one object.',
    query: { shape: { type: 'string', enum: ['flat'] } },
    answers: { 200: ['Report', 'The report.'] },
  },
  targets: ok('Targets, their states and the reasons.', 'Targets'),
  deadLetters: {
    summary:
      'Waiting dead letters, and the newest of this process; with source, the newest of the topic itself.',
    query: {
      source: { type: 'string', enum: ['topic'] },
      ...{ type: texts, reason: texts, topic: texts, since: past, until: { type: 'string' } },
      limit: { type: 'integer', minimum: 1, maximum: maxDeadLetters, default: maxDeadLetters },
    },
    answers: { 200: ['DeadLetterReport', 'The dead letters.'] },
    problems: [404, 409, 503],
  },
  resetBreakers: {
    ...{ summary: 'Closes the circuit breakers.', body: 'Nothing' },
    answers: { 200: ['BreakerResets', 'They are closed.'] },
  },
  invalidateKeys: {
    ...{ summary: 'Drops cached encryption keys, and requests new ones.', body: 'Nothing' },
    answers: { 200: ['Keys', 'State of the keys.'] },
  },
  outboxStatistics: {
    ...ok('Statistics of the outbox.', 'OutboxStatistics'),
    problems: [404, 503],
  },
  replayOutbox: {
    ...{ summary: 'Sends events of the outbox again.', body: 'ReplayRequest', isBodyNeeded: true },
    answers: { 200: ['Replay', 'The replay has ended.'] },
    problems: [404, 409, 429, 503],
  },
  recoveryOfDeadLetters: ok('Progress of the latest recovery of dead letters.', 'Runs'),
  recoverDeadLetters: begins('Sends dead letters to their original topics.', 'RecoveryRequest'),
  drainOfBackup: ok('Progress of the latest drain of the backup.', 'Runs'),
  drainBackup: begins('Sends the events of the backup to their topics.', 'DrainRequest'),
  console: asset('The console.', 'text/html'),
  consoleScript: asset('The script of the console.', 'text/javascript'),
  consoleStyle: asset('The style of the console.', 'text/css'),
  consoleDocument: {
    ...ok('Data of the console; it may change with the version of svc.', 'Console'),
    query: { after: { type: 'integer', minimum: 0 } },
  },
} satisfies Readonly<Record<string, Operation>>;

type RouteName = keyof typeof operations;

export interface DocumentedRoute {
  /** Unique among all routes. */
  readonly name: RouteName;
  readonly path: string;
  readonly method: 'GET' | 'POST';
  /** Of a POST: its name in `management.actions.exclude`. */
  readonly action?: (typeof actionIds)[number];
  /** Of an action: read access is enough for a dry run. */
  readonly hasDryRun?: true;
  /** Answers without a token, with fewer details. */
  readonly open?: true;
}

/** Of every route: problems of the request or its sender. */
const usualProblems = [400, 401, 403, 421, 500];
const problemsOfActions = [413, 415];

export function openapiDocument(routes: readonly DocumentedRoute[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      ...{ title: 'svc management', version, summary: 'Health, metrics and repair of svc in one process.' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths,
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
  };
}

function operationOf(route: DocumentedRoute): object {
  const { name, method, action, hasDryRun, open } = route;
  const operation: Operation = operations[name];
  const { summary, answers, text, body, isBodyNeeded, query, problems = [] } = operation;
  const own = Object.entries(answers).map(([status, answer]) => [
    status,
    { description: answer?.[1], content: contentOf(answer?.[0] as SchemaName, text) },
  ]);
  const wrong = [...usualProblems, ...(method === 'POST' ? problemsOfActions : []), ...problems];
  const problem = {
    description: 'What is wrong.',
    content: { 'application/problem+json': { schema: refTo('Problem') } },
  };
  return {
    ...{ operationId: name, summary },
    ...(action && {
      description: `Switched off by \`management.actions.exclude: [${action}]\`. ${
        hasDryRun
          ? 'It needs the action token; a dry run needs the read token.'
          : 'It needs the action token.'
      }`,
    }),
    // On loopback reading needs no token.
    security: action && hasDryRun !== true ? [{ bearer: [] }] : [{ bearer: [] }, {}],
    ...(open && text === undefined && { description: 'Without a token, only the status.' }),
    ...(query && {
      parameters: Object.entries(query).map(([of, schema]) => ({ name: of, in: 'query', schema })),
    }),
    ...(body && {
      requestBody: {
        required: isBodyNeeded === true,
        content: { 'application/json': { schema: refTo(body) } },
      },
    }),
    responses: {
      ...Object.fromEntries(wrong.map((status) => [status, problem])),
      ...Object.fromEntries(own),
    },
  };
}

function contentOf(name: SchemaName, text: string | undefined): object {
  const content = { schema: refTo(name) };
  return text === undefined
    ? { 'application/json': content, [versionedJsonType]: content }
    : { [text]: content };
}

function refTo(name: SchemaName): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

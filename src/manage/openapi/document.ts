// openapi/: what the endpoints take and answer, as an OpenAPI document. Loaded when it is asked for.

import { version } from '../../ground/version.ts';
import { mostDeadLetters } from '../dead-letters-endpoint.ts';
import { versionedJsonType } from '../reply.ts';
import type { Route, RouteName } from '../route.ts';
import { past, type Schema, type SchemaName, schemas, texts } from './schemas.ts';

/** What a route says of itself beside what the server has to know. */
interface Operation {
  readonly summary: string;
  readonly answers: Readonly<Partial<Record<number, readonly [SchemaName, string]>>>;
  /** Of a text that is no JSON: its media type. */
  readonly text?: string;
  readonly body?: SchemaName;
  readonly isBodyNeeded?: true;
  readonly query?: Readonly<Record<string, Schema>>;
  /** Statuses of problems beside those that every route has. */
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

/** One for each route: the types hold that none is missing. */
const operations: Readonly<Record<RouteName, Operation>> = {
  metrics,
  prometheus: metrics,
  actuatorMetrics: metrics,
  index: ok('Links to what is exposed.', 'Links'),
  openapi: ok('This document.', 'Document'),
  health: health('Health, with its details for those who may see them.', 'OverallHealth'),
  ownHealth: health('Health of svc, with its details for those who may see them.', 'Health'),
  liveness: ok('UP while the process answers.', 'Status'),
  readiness: health('DOWN while this instance does not do its work.', 'Status'),
  info: ok('Name and version of the service, and of svc.', 'Info'),
  metricsReport: {
    summary: 'The numbers of the metrics as one object.',
    query: { shape: { type: 'string', enum: ['flat'] } },
    answers: { 200: ['Report', 'The report.'] },
  },
  targets: ok('What is captured, and why something is not.', 'Targets'),
  deadLetters: {
    summary:
      'Dead letters that wait, and the newest of this process; with source, the newest of the topic itself.',
    query: {
      source: { type: 'string', enum: ['topic'] },
      ...{ type: texts, reason: texts, topic: texts, since: past, until: { type: 'string' } },
      limit: { type: 'integer', minimum: 1, maximum: mostDeadLetters, default: mostDeadLetters },
    },
    answers: { 200: ['DeadLetterReport', 'The dead letters.'] },
    problems: [404, 409, 503],
  },
  resetBreakers: {
    ...{ summary: 'Closes the circuit breakers.', body: 'Nothing' },
    answers: { 200: ['BreakerResets', 'They are closed.'] },
  },
  invalidateKeys: {
    ...{ summary: 'Forgets cached encryption keys, and asks for new ones.', body: 'Nothing' },
    answers: { 200: ['Keys', 'How the keys are now.'] },
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
  recoveryOfDeadLetters: ok('How far the latest recovery of dead letters is.', 'Runs'),
  recoverDeadLetters: begins('Sends dead letters to the topics that they were meant for.', 'RecoveryRequest'),
  drainOfBackup: ok('How far the latest drain of the backup is.', 'Runs'),
  drainBackup: begins('Sends what lies in the backup to its topics.', 'DrainRequest'),
  console: asset('The page for people.', 'text/html'),
  consoleScript: asset('The script of the page for people.', 'text/javascript'),
  consoleStyle: asset('The style of the page for people.', 'text/css'),
  consoleDocument: {
    ...ok('What the page for people shows; with another version of svc it may be another.', 'Console'),
    query: { after: { type: 'integer', minimum: 0 } },
  },
};

/** Of every route: what is wrong with a request, or with whoever sends it. */
const usualProblems = [400, 401, 403, 421, 500];
const problemsOfActions = [413, 415];

/** Of the routes that are exposed. */
export function openapiDocument(routes: readonly Route[]): object {
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

function operationOf(route: Route): object {
  const { name, method, action, hasDryRun, open } = route;
  const { summary, answers, text, body, isBodyNeeded, query, problems = [] } = operations[name];
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
          ? 'It needs the token that acts; a dry run the one that reads.'
          : 'It needs the token that acts.'
      }`,
    }),
    // On loopback, whoever may connect may read.
    security: action && hasDryRun !== true ? [{ bearer: [] }] : [{ bearer: [] }, {}],
    ...(open && text === undefined && { description: 'Without a token: the status alone.' }),
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

import { systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { isoSeconds, parseInstant, parsePast } from '../ground/instant.ts';
import type { Controls, OutboxControls, OutboxReplayRequest } from './controls.ts';
import type { JsonBody } from './json-body.ts';
import { json, problem, type Reply } from './reply.ts';

interface Context {
  readonly controls: Controls;
  readonly jsonType: string;
  /** Who asks, for the log. */
  readonly by: string;
  readonly readBody: () => Promise<JsonBody>;
}

/** `GET /actuator/svc-outbox`. */
export function outboxStatistics(context: Context): Promise<Reply> {
  return withOutbox(context, async (outbox) => {
    const { total, pending, published, failed, avgProcessingTimeMs } = await outbox.statistics();
    return json(context, 200, { total, pending, published, failed, avgProcessingTimeMs });
  });
}

/** `POST /actuator/svc-outbox`: answers when the replay has ended. */
export function replayOutbox(context: Context): Promise<Reply> {
  return withOutbox(context, async (outbox) => {
    const body = await context.readBody();
    if ('refusal' in body) return body.refusal;
    const refusal = checkFields(body.fields);
    if (refusal !== undefined) return refusal;
    const request = body.fields as unknown as OutboxReplayRequest;
    const result = await outbox.replay({ ...request, since: instantOf(request.since) }, context.by);
    const { since, limit, total, success, failed, failedEventIds, after } = result;
    const goOn = after === undefined ? {} : { after };
    return json(context, 200, { since, limit, total, success, failed, failedEventIds, ...goOn });
  });
}

async function withOutbox(
  { controls }: Context,
  use: (outbox: OutboxControls) => Promise<Reply>,
): Promise<Reply> {
  if (controls.outbox === undefined)
    return problem(
      404,
      'There is no outbox in this application: switch it on with svc.outbox.enabled: true, and name its database in svc.outbox.datasource.url.',
    );
  try {
    return await use(controls.outbox);
  } catch (error) {
    if (!(error instanceof SvcError) || !error.code.startsWith('SVC_OUTBOX_')) throw error;
    return problem(statusOf[error.code] ?? 503, error.message);
  }
}

/** Whatever else is wrong is wrong with the database. */
const statusOf: Readonly<Partial<Record<string, number>>> = {
  SVC_OUTBOX_REPLAY_BUSY: 409,
  SVC_OUTBOX_REPLAY_OPTIONS: 400,
};

const example =
  'a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.';

/** As it is given, or the time that it means: what goes on later has to name that. */
function instantOf(since: string): string {
  if (parseInstant(since) !== undefined) return since;
  return isoSeconds(parsePast(since, systemClock.now()) ?? 0);
}

function checkFields(fields: Readonly<Record<string, unknown>>): Reply | undefined {
  const { since, limit, after, type, topic, ...others } = fields;
  const wrong = (field: string, detail: string): Reply => problem(400, `${field} ${detail}`, {}, field);
  if (since === undefined || since === null) return wrong('since', `is required: ${example}`);
  if (typeof since !== 'string' || parsePast(since, systemClock.now()) === undefined)
    return wrong('since', `must be ${example}`);
  if (limit !== undefined && !(Number.isSafeInteger(limit) && (limit as number) >= 1))
    return wrong('limit', 'must be a whole number from 1 on.');
  if (after !== undefined && !(Number.isSafeInteger(after) && (after as number) >= 0))
    return wrong('after', 'must be a whole number from 0 on, as the answer to an earlier replay gave it.');
  for (const [field, value] of Object.entries({ type, topic }))
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      return wrong(field, 'must be a text: only events with it are sent.');
  // Not passed over: of a limit that is misspelt nobody would hear.
  if (Object.keys(others).length > 0)
    return problem(400, 'The body takes the fields since, type, topic, limit and after only.');
  return undefined;
}

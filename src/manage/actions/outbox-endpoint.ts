import { SvcError } from '../../ground/errors.ts';
import { isoSeconds, parseInstant } from '../../ground/instant.ts';
import type { OutboxControls, OutboxReplayRequest } from '../controls.ts';
import { json, problem, type Reply } from '../reply.ts';
import { type ActionContext, isBusy, readFields, tooOften } from './action.ts';
import { flag, requiredPast, text, timeOf, wholeFrom } from './fields.ts';

type Context = Pick<ActionContext, 'controls' | 'jsonType'>;

/** `GET /actuator/svc-outbox`. */
export function outboxStatistics(context: Context): Promise<Reply> {
  return withOutbox(context, async (outbox) => {
    const { total, pending, published, failed, avgProcessingTimeMs } = await outbox.statistics();
    return json(context, 200, { total, pending, published, failed, avgProcessingTimeMs });
  });
}

/** `POST /actuator/svc-outbox`: answers when the replay has ended. */
export function replayOutbox(context: ActionContext): Promise<Reply> {
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
  after: wholeFrom(0, ', as the answer to an earlier replay gave it'),
  dryRun: flag,
};

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
    if (error.code === 'SVC_OUTBOX_REPLAY_BUSY') return isBusy(error.message);
    // Whatever else is wrong is wrong with the database.
    return problem(error.code === 'SVC_OUTBOX_REPLAY_OPTIONS' ? 400 : 503, error.message);
  }
}

/** As it is given, or the time that it means: what goes on later has to name that. */
function instantOf(since: string): string {
  if (parseInstant(since) !== undefined) return since;
  return isoSeconds(timeOf(since) ?? 0);
}
